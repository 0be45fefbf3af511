"""Gives every buffer its storage: queues for streams, shared TBufs for temporaries, within the chip's memories."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import LoweringError
from ..ir import Location
from ..ir.device import Buffer, Instr, Storage
from .arch import Arch
from .liveness import Life, Liveness, instructions

#: Event ids of a queue's pair of pipes that stay free for explicit events; each buffer of a queue holds another.
_FREE_EVENTS = {"VECIN": 1, "VECOUT": 1, "A1": 1, "A2": 0, "CO1": 0}
#: Positions whose queues draw on the same pair of pipes.
_SHARED_PAIR = {"B1": "A1", "B2": "A2"}
#: Memories of the cube core that hold two operands or results and no more: their streams always share queues.
_SMALL = ("L0A", "L0B", "L0C")
_UNIT = {"UB": 32, "L1": 32, "L0A": 512, "L0B": 512, "L0C": 1024}


@dataclass(eq=False)
class _Slot:
    storage: Storage
    lives: list[Life]


def plan(liveness: Liveness, arch: Arch, kernel: str, location: Location) -> list[Storage]:
    """Assigns ``Buffer.storage`` and returns all storages.

    Raises:
        LoweringError: NPK-UB01 with the table of buffers when a memory is too small; NPK-AL01 for too many buffers.
    """
    lives = [life for life in liveness.lives.values() if life.first >= 0]
    streams = [life for life in lives if life.buffer.position != "VECCALC"]
    temps = sorted((life for life in lives if life.buffer.position == "VECCALC"), key=lambda life: life.start)
    queues = _queues(streams, arch)
    slots = _slots(temps, liveness)
    storages = [q.storage for q in queues] + [s.storage for s in slots]
    _fit(storages, arch, kernel, location)
    count = sum(max(s.depth, 1) for s in storages)
    if count > arch.max_buffers:
        raise LoweringError(
            "NPK-AL01",
            f"{kernel} needs {count} on-chip buffers at once; the chip has {arch.max_buffers}. Use fewer tiles at a "
            "time, or split the kernel",
            location=str(location),
        )
    for storage in storages:
        for buffer in storage.tenants:
            buffer.storage = storage
    return storages


def _rounded(buffer: Buffer) -> int:
    unit = _UNIT[buffer.memory]
    return -(-buffer.nbytes // unit) * unit


def _queues(streams: list[Life], arch: Arch) -> list[_Slot]:
    """One queue for each stream, double where it is filled again and again, as far as event ids reach."""
    made = [_queue(life) for life in streams]
    for pair in sorted({_pair(s.storage.position) for s in made}):
        mine = [s for s in made if _pair(s.storage.position) == pair]
        made = [s for s in made if s not in mine] + _within_events(mine, _budget(pair, arch))
    return made


def surplus(liveness: Liveness, arch: Arch) -> set[Buffer]:
    """Streams of the unified buffer that event ids do not reach for; they go through plain buffers and events.

    Streams that are loaded least often go first.
    """
    found: set[Buffer] = set()
    for position in ("VECIN", "VECOUT"):
        lives = [life for life in liveness.lives.values() if life.buffer.position == position and life.first >= 0]
        queues = [_queue(life) for life in lives]
        if _events(queues) > _budget(position, arch):
            queues = _shared(queues)
        queues.sort(key=lambda s: max(life.loop_depth for life in s.lives))
        while len(queues) > _budget(position, arch):
            found.update(life.buffer for life in queues.pop(0).lives)
    return found


def _pair(position: str) -> str:
    return _SHARED_PAIR.get(position, position)


def _budget(pair: str, arch: Arch) -> int:
    return arch.queue_events - _FREE_EVENTS[pair]


def _queue(life: Life) -> _Slot:
    depth = 2 if life.loop_depth else 1
    buffer = life.buffer
    return _Slot(Storage(f"{buffer.name}Queue", buffer.position, _rounded(buffer), depth, [buffer]), [life])


def _events(slots: list[_Slot]) -> int:
    return sum(s.storage.depth for s in slots)


def _within_events(slots: list[_Slot], budget: int) -> list[_Slot]:
    """Shares queues between streams that are never on chip together, then gives up double buffers, inner loops last."""
    if _events(slots) > budget or slots[0].storage.memory in _SMALL:
        slots = _shared(slots)
    by_use = sorted(slots, key=lambda s: (max(life.loop_depth for life in s.lives), -s.storage.nbytes))
    for slot in by_use:
        if _events(slots) > budget and slot.storage.depth == 2:
            slot.storage.depth = 1
    if _events(slots) > budget:
        worst = slots[0].lives[0].buffer
        raise LoweringError(
            "NPK-AL01",
            f"{len(slots)} operands of products lie in {slots[0].storage.memory} at once and the pipes have {budget} "
            "event ids for them; load fewer of them before the loop",
            location=str(worst.location),
        )
    return slots


def _shared(slots: list[_Slot]) -> list[_Slot]:
    kept: list[_Slot] = []
    for slot in sorted(slots, key=lambda s: -s.storage.nbytes):
        life = slot.lives[0]
        for other in kept:
            same = other.storage.position == slot.storage.position
            if same and all(_apart(life, there) for there in other.lives):
                other.lives.append(life)
                other.storage.tenants.append(life.buffer)
                other.storage.depth = max(other.storage.depth, slot.storage.depth)
                break
        else:
            kept.append(slot)
    return kept


def _apart(a: Life, b: Life) -> bool:
    """The two are never on chip together: one is given back before the other is asked for."""
    return a.closed < b.opened or b.closed < a.opened


def _slots(temps: list[Life], liveness: Liveness) -> list[_Slot]:
    """Colours the lives of temporaries, sharing memory between those that do not meet."""
    slots: list[_Slot] = []
    for life in temps:
        need = _rounded(life.buffer)
        free = [s for s in slots if all(_disjoint(other, life, liveness) for other in s.lives)]
        best = min(free, key=lambda s: (max(need - s.storage.nbytes, 0), s.storage.nbytes), default=None)
        if best is None or need - best.storage.nbytes > need // 2:
            slot = _Slot(Storage(f"{life.buffer.name}Buf", "VECCALC", need, 0, [life.buffer]), [life])
            slots.append(slot)
        else:
            best.storage.nbytes = max(best.storage.nbytes, need)
            best.storage.tenants.append(life.buffer)
            best.lives.append(life)
    for i, slot in enumerate(slots):
        if len(slot.lives) > 1:
            slot.storage.name = f"work{i}Buf"
    return slots


def _disjoint(before: Life, after: Life, liveness: Liveness) -> bool:
    """``before`` is dead when ``after`` (which starts later) begins, or dies in the instruction that begins it."""
    if before.end < after.start:
        return True
    if before.end > after.start or before.buffer.nbytes < after.buffer.nbytes:
        return False
    found = [i for s in liveness.at.get(after.start, []) for i in instructions(s)]
    return bool(found) and all(_writes_over(i, before.buffer, after.buffer) for i in found)


def _writes_over(instr: Instr, before: Buffer, after: Buffer) -> bool:
    if instr.dst.base is not after or before not in instr.reads():
        return False
    return all(i in instr.inplace for i, source in enumerate(instr.sources) if source.base is before)


def _fit(storages: list[Storage], arch: Arch, kernel: str, location: Location) -> None:
    """Gives up double buffers, largest first, in each memory that is too small."""
    for memory in {s.memory for s in storages}:
        mine = [s for s in storages if s.memory == memory]
        for storage in sorted(mine, key=lambda s: -s.nbytes):
            if sum(s.total for s in mine) > arch.capacity[memory] and storage.depth == 2:
                storage.depth = 1
        if sum(s.total for s in mine) > arch.capacity[memory]:
            raise _over_budget(memory, mine, arch, kernel, location)


def _over_budget(memory: str, storages: list[Storage], arch: Arch, kernel: str, location: Location) -> LoweringError:
    total = sum(s.total for s in storages)
    ordered = sorted(storages, key=lambda s: -s.total)
    rows = [
        f"  {s.total:>9,} B  {_some([b.name for b in s.tenants])}  ({_some([str(b.location) for b in s.tenants])})"
        for s in ordered
    ]
    worst = ordered[0].tenants[0]
    return LoweringError(
        "NPK-UB01",
        f"{memory}: {kernel} needs {total:,} B of {arch.capacity[memory]:,} B. Make the tiles smaller: fewer rows a "
        "step, or a loop over the columns. The buffers, largest first:\n" + "\n".join(rows),
        location=str(worst.location if worst.location.line else location),
    )


def _some(items: list[str]) -> str:
    distinct = list(dict.fromkeys(items))
    more = f" and {len(distinct) - 4} more" if len(distinct) > 4 else ""
    return ", ".join(distinct[:4]) + more
