"""Ready commands for a new key."""

import json
from dataclasses import dataclass

from metering.models import Business
from scheduler.models import ModelDeployment

QUESTION = "Say hello in five words."


@dataclass(frozen=True, slots=True)
class Snippet:
    """One way to call the gateway; ``slug`` names its tab."""

    slug: str
    label: str
    code: str


def example_model(business: Business) -> str | None:
    """A model the business may use, one that chats if there is any; None if there is none."""
    models = ModelDeployment.objects.all()
    if business.models is not None:
        models = models.filter(name__in=business.models)
    chat = models.filter(task="chat").values_list("name", flat=True).first()
    return chat or models.values_list("name", flat=True).first()


def models_of(business: Business) -> list[str]:
    """Public names of the models that the business may use, those of the fleet that it has."""
    models = ModelDeployment.objects.all()
    if business.models is not None:
        models = models.filter(name__in=business.models)
    return list(models.values_list("name", flat=True))


def snippets_for(secret: str, base_url: str, model: str | None) -> list[Snippet]:
    """Commands that work as pasted: ``base_url`` ends in ``/v1``."""
    name = model or "MODEL"
    return [
        Snippet("curl", "curl", _curl(secret, base_url, name)),
        Snippet("python", "Python", _python(secret, base_url, name)),
        Snippet("node", "Node.js", _node(secret, base_url, name)),
    ]


def _curl(secret: str, base_url: str, model: str) -> str:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": QUESTION}]})
    return "\n".join(
        (
            f"curl {base_url}/chat/completions \\",
            f'  -H "Authorization: Bearer {secret}" \\',
            '  -H "Content-Type: application/json" \\',
            f"  -d '{body}'",
        )
    )


def _python(secret: str, base_url: str, model: str) -> str:
    return "\n".join(
        (
            "# pip install openai",
            "from openai import OpenAI",
            "",
            f"client = OpenAI(base_url={json.dumps(base_url)}, api_key={json.dumps(secret)})",
            "answer = client.chat.completions.create(",
            f"    model={json.dumps(model)},",
            f'    messages=[{{"role": "user", "content": {json.dumps(QUESTION)}}}],',
            ")",
            "print(answer.choices[0].message.content)",
        )
    )


def _node(secret: str, base_url: str, model: str) -> str:
    return "\n".join(
        (
            "// npm install openai; save as hello.mjs",
            'import OpenAI from "openai";',
            "",
            f"const client = new OpenAI({{ baseURL: {json.dumps(base_url)},",
            f"  apiKey: {json.dumps(secret)} }});",
            "const answer = await client.chat.completions.create({",
            f"  model: {json.dumps(model)},",
            f'  messages: [{{ role: "user", content: {json.dumps(QUESTION)} }}],',
            "});",
            "console.log(answer.choices[0].message.content);",
        )
    )
