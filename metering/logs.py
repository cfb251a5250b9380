"""How a log record is written: one line, without secrets.

Redaction sits here, in the formatters, so that no call site can forget it. Both cover the
message, its arguments, extra fields and tracebacks.
"""

import json
import logging
from datetime import UTC, datetime

from metering.redaction import redact, redact_value

# What every LogRecord has; anything else on a record came in by ``extra=``.
_BUILT_IN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SHORT = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127, 0x85, 0x2028, 0x2029)} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}


def _trouble(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """The traceback and stack of ``record``, redacted; empty when it has none."""
    parts = []
    if record.exc_info:
        parts.append(formatter.formatException(record.exc_info))
    elif record.exc_text:
        parts.append(record.exc_text)
    if record.stack_info:
        parts.append(record.stack_info)
    return redact("\n".join(parts))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (ISO 8601, UTC), level, logger, message, extra fields, error."""

    def format(self, record: logging.LogRecord) -> str:
        """The line for ``record``, without its newline."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        for name, value in vars(record).items():
            if name not in _BUILT_IN and name not in line:
                line[name] = redact_value(name, value)
        if error := _trouble(self, record):
            line["error"] = error
        return json.dumps(line, ensure_ascii=False)


class ConsoleFormatter(logging.Formatter):
    """``[INFO] message`` for people; a traceback, if there is one, on the lines below.

    Control characters are shown escaped: text that came from a caller must not be able to
    forge a line of its own.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line for ``record``, without its newline."""
        level = _SHORT.get(record.levelname, record.levelname)
        line = f"[{level}] {redact(record.getMessage()).translate(_CONTROLS)}"
        error = _trouble(self, record)
        return f"{line}\n{error}" if error else line
