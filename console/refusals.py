"""What the services refuse, in the language of the page.

Services speak English, to command lines and logs as well. The sentences that they use are
listed here so that they can be translated; a test holds the list to be complete. ``%(a)s``,
``%(b)s`` stand for what varies.
"""

import re
from functools import cache

from django.utils.translation import gettext, gettext_noop

from metering.errors import RefusedError

SENTENCES = (
    gettext_noop("%(a)s has not begun yet"),
    gettext_noop("%(a)s is not over yet"),
    gettext_noop("%(a)s must be one of %(b)s"),
    gettext_noop("%(a)s: at most %(b)s decimal places"),
    gettext_noop("%(a)s: from 0 to below %(b)s"),
    gettext_noop("a business has at most %(a)s addresses for alerts"),
    gettext_noop("a business needs at least one owner"),
    gettext_noop("a credit note needs a reason of at most 500 characters"),
    gettext_noop("a key's name has 1 to 80 characters"),
    gettext_noop("a limit cannot be negative"),
    gettext_noop("a model's name has at most 200 characters"),
    gettext_noop("a target is mail or webhook"),
    gettext_noop("another request is still open"),
    gettext_noop("at most %(a)s characters, please"),
    gettext_noop("ceiling must be one of %(a)s"),
    gettext_noop("ceiling: %(a)s has %(b)s at best"),
    gettext_noop("ceiling: %(a)s"),
    gettext_noop("every model is more than the parent's models"),
    gettext_noop("grade: %(a)s has %(b)s; ask for more"),
    gettext_noop("is set by operations"),
    gettext_noop("it has been narrowed too often already"),
    gettext_noop("it would be valid before its parent"),
    gettext_noop("it would outlive its parent"),
    gettext_noop("may be %(a)s at most; ask operations for more"),
    gettext_noop("models: a name has 1 to 200 characters"),
    gettext_noop("models: not the business's: %(a)s"),
    gettext_noop("must be a number from 0 to %(a)s, or blank"),
    gettext_noop("must be a whole number from 0 to %(a)s, or blank"),
    gettext_noop("must be an amount of at least 0 with at most 6 decimals, or blank"),
    gettext_noop("no user name is left for you here"),
    gettext_noop("not the parent's models: %(a)s"),
    gettext_noop("only %(a)s is left of bill %(b)s"),
    gettext_noop("only a credential that works can be narrowed"),
    gettext_noop("only a key that works can be rotated"),
    gettext_noop("requests were accepted since: prices cannot change for what is past"),
    gettext_noop("svc has at most %(a)s printable characters"),
    gettext_noop("the amount must be money, more than 0"),
    gettext_noop("the bills of %(a)s are not issued yet"),
    gettext_noop("the business has that grade or a better one"),
    gettext_noop("the expiry lies in the past"),
    gettext_noop("the key is revoked"),
    gettext_noop("the lifetime is 1 second to %(a)s days"),
    gettext_noop("the month of %(a)s is closed"),
    gettext_noop("the overlap cannot be negative"),
    gettext_noop("the parent is for service %(a)s alone"),
    gettext_noop("the request is not open any more"),
    gettext_noop("the signing key was kept under another FAIRLANE_KEY_PEPPER: rotate it"),
    gettext_noop("there is no account for you here; administrators make accounts"),
    gettext_noop("there is no such grade"),
    gettext_noop("there is no such limit"),
    gettext_noop("there is no such role"),
    gettext_noop("these are the limits as they are"),
    gettext_noop("this account belongs to another sign-on"),
    gettext_noop("this account is switched off"),
    gettext_noop("this address is there already"),
    gettext_noop("this is no mail address"),
    gettext_noop("this person belongs to the business already"),
    gettext_noop("version %(a)s begins at %(b)s only: the next one must begin later"),
    gettext_noop("version %(a)s has begun and stays"),
    gettext_noop("your groups give you no role here"),
)


def said(refusal: RefusedError) -> str:
    """The refusal as a sentence for the person in front of the page."""
    return translated(str(refusal))


def translated(text: str) -> str:
    """The same sentence in the active language, beginning with a capital letter; as it is where
    nobody knows it."""
    for sentence, pattern in _patterns():
        found = pattern.fullmatch(text)
        if found:
            text = gettext(sentence) % found.groupdict()
            break
    return text[:1].upper() + text[1:]


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Each sentence with what recognises it, the most exact first."""
    made = []
    for sentence in sorted(SENTENCES, key=lambda text: (text.count("%("), -len(text))):
        pattern = re.sub(r"%\\\((\w)\\\)s", r"(?P<\1>.+?)", re.escape(sentence))
        made.append((sentence, re.compile(pattern, re.DOTALL)))
    return tuple(made)
