"""The two log lines of the contract, to the letter."""

import io
import logging

import pytest

from metering.logs import ConsoleFormatter
from scheduler.decision_lines import preempt_line, promote_line


@pytest.fixture
def lines() -> tuple[logging.Logger, io.StringIO]:
    logger, out = logging.getLogger("test.decisions"), io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(ConsoleFormatter())
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.INFO)
    return logger, out


def test_preempt(lines: tuple[logging.Logger, io.StringIO]) -> None:
    logger, out = lines
    logger.info(preempt_line("7f3a", 2, "risk-8821", 0, saved=True, remain=120_400_000))
    assert out.getvalue() == (
        "[INFO] preempt P2 batch bid=7f3a to serve P0 req=risk-8821"
        " kv_snapshot_saved=true est_remain=120ms gain>cost\n"
    )


def test_promote(lines: tuple[logging.Logger, io.StringIO]) -> None:
    logger, out = lines
    logger.warning(promote_line("eval-5532", 2))
    assert out.getvalue() == (
        "[WARN] P2 req eval-5532 hit max_wait_ms, promote to P1 once (starvation guard)\n"
    )


def test_a_snapshot_that_was_not_saved_is_said() -> None:
    line = preempt_line("7f3a", 2, "risk-8821", 0, saved=False, remain=0)
    assert "kv_snapshot_saved=false est_remain=0ms" in line
