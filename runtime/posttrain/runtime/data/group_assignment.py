"""Assigns whole groups of rows to parts of given sizes."""

from collections.abc import Iterator, Mapping, Sequence


def assign_groups(sizes: Sequence[int], targets: Mapping[str, int]) -> dict[str, list[int]]:
    """The groups of each part, as indices into `sizes`, which are in random order.

    A part takes the groups in this order, and skips a group that is too large for its remaining rows. If
    that leaves rows missing, it takes a set of groups whose size is closest to the target, the smaller on a
    tie. At least one group remains in no part. Raise ValueError when there are fewer groups than that needs.
    """
    if len(sizes) <= len(targets):
        raise ValueError(f"{len(sizes)} groups cannot be split into {len(targets) + 1} parts")
    free = list(range(len(sizes)))
    assigned: dict[str, list[int]] = {}
    for number, (part, target) in enumerate(targets.items()):
        spare = len(targets) - number  # each later part, and the rest, needs a group
        if len(free) <= spare:
            raise ValueError(f"no group of rows remains for the part `{part}`")
        chosen = _first_fit(sizes, free, target, len(free) - spare)
        if sum(sizes[group] for group in chosen) != target:
            chosen = _closest_subset(sizes, free, target, spare)
        assigned[part] = chosen
        taken = set(chosen)
        free = [group for group in free if group not in taken]
    return assigned


def _first_fit(sizes: Sequence[int], free: Sequence[int], target: int, most: int) -> list[int]:
    chosen: list[int] = []
    left = target
    for group in free:
        if left == 0 or len(chosen) == most:
            break
        if sizes[group] <= left:
            chosen.append(group)
            left -= sizes[group]
    return chosen


def _closest_subset(sizes: Sequence[int], free: Sequence[int], target: int, spare: int) -> list[int]:
    """A set of groups whose total is closest to the target: a subset sum over the distinct sizes.

    Bit `s` of a sum set says that groups of the sizes so far can have `s` rows together.
    """
    in_order = sorted(sizes[group] for group in free)
    # A sum above twice the target is farther from it than any smaller one.
    limit = min(max(2 * target, in_order[0]), sum(in_order) - sum(in_order[:spare]))
    by_size: dict[int, list[int]] = {}
    for group in free:
        if sizes[group] <= limit:
            by_size.setdefault(sizes[group], []).append(group)
    mask = (1 << (limit + 1)) - 1
    batches = [(size, count) for size, groups in by_size.items() for count in _powers(len(groups))]
    sums = [1]
    for size, count in batches:
        sums.append((sums[-1] | (sums[-1] << (size * count))) & mask)
    possible = [total for total in range(1, limit + 1) if sums[-1] >> total & 1]
    total = min(possible, key=lambda one: (abs(one - target), one))
    counts = dict.fromkeys(by_size, 0)
    for (size, count), before in zip(reversed(batches), reversed(sums[:-1]), strict=True):
        if not before >> total & 1:
            counts[size] += count
            total -= size * count
    return [group for size, groups in by_size.items() for group in groups[: counts[size]]]


def _powers(count: int) -> Iterator[int]:
    """Numbers whose subset sums are exactly 0 to `count`."""
    power = 1
    while count > 0:
        yield min(power, count)
        count -= power
        power *= 2
