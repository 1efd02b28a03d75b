"""Units of measure: their names and conversions."""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

Dimensions = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Unit:
    factor: Fraction
    dimensions: Dimensions


def _unit_table() -> dict[str, tuple[Fraction, str, int]]:
    rows: list[tuple[str, str, int, str]] = [
        ("length", "1", 1, "m meter meters metre metres"),
        ("length", "1/100", 1, "cm centimeter centimeters centimetre centimetres"),
        ("length", "1/1000", 1, "mm millimeter millimeters millimetre millimetres"),
        ("length", "1/10", 1, "dm decimeter decimeters"),
        ("length", "1000", 1, "km kilometer kilometers kilometre kilometres kms"),
        ("length", "1/1000000", 1, "um micrometer micrometers"),
        ("length", "1/1000000000", 1, "nm nanometer nanometers"),
        ("length", "127/5000", 1, "in inch inches"),
        ("length", "381/1250", 1, "ft foot feet"),
        ("length", "1143/1250", 1, "yd yds yard yards"),
        ("length", "201168/125", 1, "mi mile miles"),
        ("length", "1/1000", 3, "L l liter liters litre litres"),
        ("length", "1/1000000", 3, "ml milliliter milliliters millilitre millilitres cc"),
        ("length", "10000", 2, "ha hectare hectares"),
        ("mass", "1", 1, "g gram grams"),
        ("mass", "1/1000", 1, "mg milligram milligrams"),
        ("mass", "1000", 1, "kg kgs kilogram kilograms kilo kilos"),
        ("mass", "1000000", 1, "tonne tonnes"),
        ("mass", "45359237/100000", 1, "lb lbs pound pounds"),
        ("mass", "45359237/1600000", 1, "oz ounce ounces"),
        ("time", "1", 1, "s sec secs second seconds"),
        ("time", "1/1000", 1, "ms millisecond milliseconds"),
        ("time", "60", 1, "min mins minute minutes"),
        ("time", "3600", 1, "h hr hrs hour hours"),
        ("time", "86400", 1, "day days"),
        ("time", "604800", 1, "week weeks wk"),
        ("month", "1", 1, "month months"),
        ("month", "12", 1, "year years yr yrs"),
        ("angle", "1", 1, "deg degree degrees"),
        ("celsius", "1", 1, "degC celsius"),
        ("fahrenheit", "1", 1, "degF fahrenheit"),
        ("dollar", "1", 1, "usd dollar dollars"),
        ("dollar", "1/100", 1, "cent cents"),
        ("euro", "1", 1, "eur euro euros"),
        ("sterling", "1", 1, "gbp £"),
        ("yen", "1", 1, "yen jpy"),
        ("yuan", "1", 1, "yuan rmb"),
        ("rupee", "1", 1, "rupee rupees rs inr"),
        ("ampere", "1", 1, "A amp amps ampere amperes"),
        ("kelvin", "1", 1, "K kelvin kelvins"),
        ("mole", "1", 1, "mol mole moles"),
        ("newton", "1", 1, "N newton newtons"),
        ("joule", "1", 1, "J joule joules"),
        ("joule", "1000", 1, "kj kilojoule kilojoules"),
        ("watt", "1", 1, "W watt watts"),
        ("watt", "1000", 1, "kw kilowatt kilowatts"),
        ("volt", "1", 1, "V volt volts"),
        ("coulomb", "1", 1, "C coulomb coulombs"),
        ("tesla", "1", 1, "T tesla teslas"),
        ("farad", "1", 1, "F farad farads"),
        ("electronvolt", "1", 1, "eV"),
        ("radian", "1", 1, "rad radian radians"),
        ("bit", "1", 1, "bit bits"),
        ("bit", "8", 1, "byte bytes"),
        ("hertz", "1", 1, "hz hertz"),
        ("pascal", "1", 1, "pa pascal pascals"),
        ("pascal", "1000", 1, "kpa kilopascal kilopascals"),
        ("ohm", "1", 1, "ohm ohms omega"),
        ("dozen", "1", 1, "dozen dozens"),
        ("gallon", "1", 1, "gal gallon gallons"),
        ("gallon", "1/4", 1, "qt quart quarts"),
        ("gallon", "1/8", 1, "pint pints"),
        ("gallon", "1/16", 1, "cup cups"),
    ]
    return {
        word: (Fraction(factor), dimension, power)
        for dimension, factor, power, words in rows
        for word in words.split()
    }


UNIT_TABLE = _unit_table()
UNIT_ALIASES = {"mph": "mi/h", "kmh": "km/h", "kph": "km/h", "kmph": "km/h", "sqft": "ft^2"}
PER = re.compile(r"\s+per\s+|\s*/\s*")
UNIT_FACTOR = re.compile(
    r"(?:(square|sq\.?|cubic|cu\.?)\s+)?([A-Za-z£]+)\.?\s*(?:(squared|cubed)|\^?\s*(-?\d))?"
)
REPEATED = re.compile(r"(?<!\w)([A-Za-z]+)\s+\1(?![A-Za-z])")  # `km km` is no unit
POWERS = {"square": 2, "sq": 2, "sq.": 2, "cubic": 3, "cu": 3, "cu.": 3, "squared": 2, "cubed": 3}


@lru_cache(maxsize=1024)
def parse_unit(unit: str) -> Unit | None:
    """The factor and dimensions of a unit, or None for words such as `apples` that are not a unit."""
    over, *under = PER.split(UNIT_ALIASES.get(unit, unit).strip())
    factor, powers = Fraction(1), dict[str, int]()
    for text, direction in [(over, 1)] + [(part, -1) for part in under]:
        if REPEATED.search(text):
            return None
        for piece in re.split(r"\s*[*·]\s*|\s+(?!squared|cubed)(?<!square\s)(?<!cubic\s)(?<!sq\s)", text):
            known = _parse_factor(piece)
            if known is None:
                return None
            size, dimension, power = known
            factor *= size**direction
            powers[dimension] = powers.get(dimension, 0) + direction * power
    return Unit(factor, tuple(sorted((name, power) for name, power in powers.items() if power)))


def _parse_factor(text: str) -> tuple[Fraction, str, int] | None:
    match = UNIT_FACTOR.fullmatch(text.strip())
    if match is None:
        return None
    before, word, after, digit = match.groups()
    row = UNIT_TABLE.get(word) or UNIT_TABLE.get(word.lower())
    if row is None:
        return None
    power = POWERS.get(before or after or "", 1) * int(digit or 1)
    size, dimension, own = row
    return size**power, dimension, own * power


def is_unit(word: str) -> bool:
    """Whether a bare word, outside \\text, is a unit and not a product of variables."""
    return len(word) > 1 and (word in UNIT_TABLE or word in UNIT_ALIASES)
