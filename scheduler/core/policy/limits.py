"""A field's own limits, and the walk over all fields."""

from collections.abc import Iterator

from .spec import Kind, Section, Spec, specs


def leaves(section: Section, path: str = "scheduler") -> Iterator[tuple[str, Spec, object]]:
    """Path, Spec and value of every field below a section, rows of lists included."""
    for name, spec in specs(section):
        value = getattr(section, name)
        here = f"{path}.{name}"
        if isinstance(value, Section):
            yield from leaves(value, here)
            continue
        yield here, spec, value
        if spec.kind is Kind.ROWS and isinstance(value, tuple):
            for index, row in enumerate(value):
                yield from leaves(row, f"{here}[{index}]")


def fits(spec: Spec, value: object) -> bool:
    """Whether a value, in the form kept in memory, is within a field's own limits."""
    if value is None:
        return spec.optional
    if isinstance(value, bool):
        return spec.kind is Kind.FLAG
    if isinstance(value, int | float):
        return spec.kind in _NUMERIC and _within(spec, value)
    if isinstance(value, str):
        if spec.kind is Kind.CHOICE:
            return value in spec.choices
        return spec.kind is Kind.TEXT and _is_name(spec, value)
    return isinstance(value, tuple) and _fits_tuple(spec, value)


_NUMERIC = (Kind.WHOLE, Kind.NUMBER, Kind.SHARE)


def _within(spec: Spec, value: float) -> bool:
    # Phrased so that NaN is outside.
    return (
        (spec.least is None or value >= spec.least)
        and (spec.above is None or value > spec.above)
        and (spec.most is None or value <= spec.most)
    )


def _is_name(spec: Spec, value: str) -> bool:
    fits_length = spec.most is None or len(value) <= spec.most
    return bool(value) and value == value.strip() and value.isprintable() and fits_length


def _fits_tuple(spec: Spec, value: tuple[object, ...]) -> bool:
    if spec.kind is Kind.ROWS:
        return spec.most is None or len(value) <= spec.most
    if spec.kind is Kind.CHOICES:
        return all(item in spec.choices for item in value) and len(set(value)) == len(value)
    return spec.kind is Kind.LEVELS and _is_range(spec, value)


def _is_range(spec: Spec, value: tuple[object, ...]) -> bool:
    if len(value) != 2:
        return False
    least, most = value
    if isinstance(least, bool) or isinstance(most, bool):
        return False
    if not isinstance(least, int) or not isinstance(most, int):
        return False
    return _within(spec, least) and _within(spec, most) and least <= most
