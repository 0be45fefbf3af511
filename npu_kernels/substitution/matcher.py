"""Unify the traced example of a pattern with a value of a program, both seen through their canonical views.

Variables of the example bind to values, declared parameters bind to constants; every other constant must be equal.
Rigid parts are matched before variables, so that a variable met inside the rigid part tells where a product ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

from npu_kernels.graph.core import Value
from npu_kernels.substitution.axes import Axes, Axis, Index, Ref, align, resolve
from npu_kernels.substitution.bindings import Bindings, Mismatch, Shared, close
from npu_kernels.substitution.heads import (
    Condition,
    Dot,
    Factor,
    Head,
    Leaf,
    Number,
    Op,
    Product,
    Reduce,
    Select,
    Sum,
    describe,
)  # fmt: skip
from npu_kernels.substitution.view import View

_COMMUTATIVE = frozenset({"and", "or", "xor", "maximum", "minimum", "add", "multiply"})


class Matcher:
    """Matches one example against values of one program.

    Args:
        example: view of the traced example.
        variables: names of its inputs.
        parameters: sentinel constants by parameter name; empty when the parameters have their real values.
        view: view of the program.
    """

    def __init__(
        self, example: View, variables: Mapping[Value, str], parameters: Mapping[str, float], view: View
    ) -> None:
        self.example = example
        self.variables = variables
        self.parameters = parameters
        self.view = view
        self.mismatch: Mismatch | None = None

    def match(self, root: Ref, candidate: Ref) -> Bindings | None:
        """Bindings under which ``candidate`` is the example's ``root``; else ``None``, and ``mismatch`` says why."""
        self.mismatch = None
        return self._unify(root, candidate, Bindings())

    # -- one level -----------------------------------------------------------------------------------------------

    def _variable(self, p: Ref) -> tuple[str, Ref] | None:
        leaf = self.example.peeler.peel(p)
        name = self.variables.get(leaf.value)
        return (name, leaf) if name is not None else None

    def _unify(self, p: Ref, s: Ref, env: Bindings, *, coefficients: bool = True) -> Bindings | None:
        variable = self._variable(p)
        if variable is not None:
            return self._bind(variable[0], variable[1], s, env)
        ph = self.example.head(p)
        scaled = self._variable(ph.ref) if isinstance(ph.core, Leaf) else None
        if scaled is not None:
            return self._scaled(ph, scaled, s, env)
        sh = self.view.head(s, {ref.value for _, ref in env.variables.values()})
        key = ph.ref.value
        if key in env.nodes and not isinstance(ph.core, Number):
            return self._again(env.nodes[key], ph, sh, env, coefficients)
        env = env.copy()
        if isinstance(ph.core, Product):
            found = self._products(ph, s, sh, env, coefficients)
        elif coefficients and not self._constant(ph.coefficient, sh.coefficient, env):
            return self._fail(ph, sh, s, env, f"the constant {sh.coefficient:.9g} instead of {ph.coefficient:.9g}")
        else:
            found = self._cores(ph, sh, s, env)
        if found is not None:
            found.nodes[key] = Shared(ph.ref.resolved, sh.ref, sh.coefficient if coefficients else None)
        return found

    def _fail(self, ph: Head | str, sh: Head, s: Ref, env: Bindings, detail: str = "") -> Bindings | None:
        """Remember how far the match came; always ``None``."""
        expected = ph if isinstance(ph, str) else describe(ph)
        progress = len(env.nodes) + len(env.variables)
        if self.mismatch is None or progress > self.mismatch.progress:
            self.mismatch = Mismatch(progress, expected, sh, s, detail)
        return None

    def _constant(self, p: float, s: float, env: Bindings) -> bool:
        for name, sentinel in self.parameters.items():
            if close(p, sentinel):
                if name in env.parameters:
                    return close(env.parameters[name], s)
                env.parameters[name] = s
                return True
        return close(p, s)

    # -- variables and shared parts --------------------------------------------------------------------------------

    def _bind(self, name: str, p: Ref, s: Ref, env: Bindings) -> Bindings | None:
        if name in env.variables:
            p0, s0 = env.variables[name]
            renaming = self._renaming(p0, p.resolved, s0, s, env)
            if renaming is not None and self.view.same(s0, s, renaming):
                env = env.copy()
                env.variables[name] = (p.resolved, s0.at(renaming))
                return env
            return self._fail(f"`{name}` again", self.view.head(s), s, env, f"a value other than `{name}`")
        leaf = self.view.peeler.leaf(s)
        if not self._has_axes(p, leaf, env):
            return self._fail(f"`{name}`", self.view.head(s), s, env, f"`{name}` would not have the example's axes")
        env = env.copy()
        env.variables[name] = (p.resolved, leaf)
        return env

    def _scaled(self, ph: Head, variable: tuple[str, Ref], s: Ref, env: Bindings) -> Bindings | None:
        """A variable with a constant factor."""
        coefficient, rest = self.view.peeler.scaled(s)
        env = env.copy()
        if not self._constant(ph.coefficient, coefficient, env):
            return self._fail(ph, self.view.head(s), s, env, f"the constant factor {coefficient:.9g}")
        return self._bind(*variable, rest, env)

    def _has_axes(self, p: Ref, s: Ref, env: Bindings) -> bool:
        """Whether a read has exactly those known axes that the example's variable has."""
        own, wanted = set(s.axes), {axis for dim in p.resolved for axis in dim}
        for axis, axes in env.axes.items():
            known = set(resolve(axes))
            if (axis in wanted and not known <= own) or (axis not in wanted and known & own):
                return False
        return True

    def _again(self, earlier: Shared, ph: Head, sh: Head, env: Bindings, coefficients: bool) -> Bindings | None:
        scaled = coefficients and earlier.coefficient is not None and not close(earlier.coefficient, sh.coefficient)
        renaming = self._renaming(earlier.index, ph.ref.resolved, earlier.ref, sh.ref, env)
        if scaled or renaming is None or not self.view.same(earlier.ref, sh.ref, renaming):
            return self._fail(ph, sh, sh.ref, env, "a different value where the same one was expected")
        return env

    def _renaming(self, p0: Index, p1: Index, s0: Ref, s1: Ref, env: Bindings) -> dict[Axis, Axis] | None:
        renaming: dict[Axis, Axis] = {}
        for x0, x1 in zip((a for d in p0 for a in d), (a for d in p1 for a in d), strict=True):
            if x0 is x1:
                continue
            if x0 not in env.axes and x1 not in env.axes:
                return None
            if x1 not in env.axes:
                moved = self._moved(env.axes[x0], s0, s1)
                if moved is None:
                    return None
                env.axes[x1] = moved
            elif x0 not in env.axes:
                moved = self._moved(env.axes[x1], s1, s0)
                if moved is None:
                    return None
                env.axes[x0] = moved
            pairs = align(env.axes[x0], env.axes[x1])
            if pairs is None:
                return None
            renaming.update(pairs)
        return renaming

    def _moved(self, axes: Axes, s0: Ref, s1: Ref) -> Axes | None:
        """The axes ``s1`` has where ``s0``, a read of the same value, has ``axes``."""
        s1 = self.view.peeler.peel(s1, {s0.value})
        if s1.value is not s0.value:
            return None
        wanted = resolve(axes)
        found: list[tuple[Axis, Axis]] = []
        for d0, d1 in zip(s0.resolved, s1.resolved, strict=True):
            pairs = align(d0, d1)
            if pairs is None:
                return None
            found.extend((a, b) for a, b in pairs.items() if a in resolve(wanted))
        order = resolve(wanted)
        by_axis = dict(found)
        return tuple(by_axis[a] for a in order) if all(a in by_axis for a in order) else None

    # -- forms -----------------------------------------------------------------------------------------------------

    def _cores(self, ph: Head, sh: Head, s: Ref, env: Bindings) -> Bindings | None:
        match ph.core, sh.core:
            case Number(), Number():
                return env
            case Dot(pb, pa, pc), Dot(sb, sa, sc):
                env = self._bound(pb, sb, env)
                return self._any(env, (((pa, sa), (pc, sc)), ((pa, sc), (pc, sa))))
            case Reduce(pk, pb, body), Reduce(sk, sb, other) if pk == sk:
                return self._unify(body, other, self._bound(pb, sb, env))
            case Op(pn, pargs), Op(sn, sargs) if pn == sn and ph.core.attrs == sh.core.attrs:
                orders = [tuple(zip(pargs, sargs, strict=True))]
                if pn in _COMMUTATIVE and len(pargs) == 2:
                    orders.append(tuple(zip(pargs, reversed(sargs), strict=True)))
                return self._any(env, orders)
            case Sum(pconst, pterms), Sum(sconst, sterms) if len(pterms) == len(sterms):
                if self._constant(pconst, sconst, env):
                    signs = [sign for sign, _ in pterms]
                    return self._any(
                        env,
                        [
                            tuple((p, s) for (_, p), (_, s) in zip(pterms, order, strict=True))
                            for order in permutations(sterms)
                            if [sign for sign, _ in order] == signs
                        ],
                    )
                return self._fail(ph, sh, s, env, f"the added constant {sconst:.9g}")
            case Select(pconds, pbody, pfill, _, _), Select(sconds, sbody, sfill, _, _):
                return self._selects(pconds, pbody, pfill, sh.core, sconds, sbody, sfill, env)
        return self._fail(ph, sh, s, env)

    def _selects(
        self, pconds: Sequence[Condition], pbody: Ref, pfill: float, core: Select, sconds: tuple[Condition, ...],
        sbody: Ref, sfill: float, env: Bindings,
    ) -> Bindings | None:  # fmt: skip
        (condition,) = pconds
        variable = self._variable(condition.ref)
        assert variable is not None, "the example's mask is one of its arguments"
        if not self._constant(pfill, sfill, env):
            return None
        found = self._unify(pbody, sbody, env)
        if found is None:
            return None
        found.conditions[variable[0]] = sconds
        found.variables[variable[0]] = (variable[1].resolved, core.whole)
        found.selections.append(core)
        return found

    def _bound(self, p: Axes, s: Axes, env: Bindings) -> Bindings:
        """Pair bound axes; a sum over one element has none in the example."""
        env = env.copy()
        if len(p) == 1:
            env.axes[p[0]] = s
        return env

    def _any(self, env: Bindings, orders: Sequence[Sequence[tuple[Ref, Ref]]]) -> Bindings | None:
        for order in orders:
            current: Bindings | None = env
            for p, s in sorted(order, key=lambda pair: self._variable(pair[0]) is not None):
                assert current is not None
                current = self._unify(p, s, current)
                if current is None:
                    break
            if current is not None:
                return current
        return None

    # -- products --------------------------------------------------------------------------------------------------

    def _products(self, ph: Head, s: Ref, sh: Head, env: Bindings, coefficients: bool) -> Bindings | None:
        if not isinstance(sh.core, Product):
            return self._fail(ph, sh, s, env)
        assert isinstance(ph.core, Product)
        rigid = [f for f in ph.core.factors if self._variable(f.ref) is None]
        for found, used in self._rigid(rigid, sh.core.factors, env):
            done = self._finish(ph, s, sh, found, used, coefficients)
            if done is not None:
                return done
        return self._fail(ph, sh, s, env)

    def _rigid(
        self, wanted: Sequence[Factor], factors: Sequence[Factor], env: Bindings
    ) -> Iterator[tuple[Bindings, tuple[Factor, ...]]]:
        if not wanted:
            yield env, ()
            return
        first, *rest = wanted
        for i, factor in enumerate(factors):
            if (factor.exponent, factor.root) != (first.exponent, first.root):
                continue
            found = self._unify(first.ref, factor.ref, env, coefficients=first.root)
            if found is None:
                continue
            others = [f for j, f in enumerate(factors) if j != i]
            for complete, used in self._rigid(rest, others, found):
                yield complete, (factor, *used)

    def _finish(
        self, ph: Head, s: Ref, sh: Head, env: Bindings, used: tuple[Factor, ...], coefficients: bool
    ) -> Bindings | None:
        """Match the variables of a product, its rigid factors being matched."""
        assert isinstance(ph.core, Product)
        stops = {ref.value for _, ref in env.variables.values()}
        coefficient, factors = self.view.product(s, stops)
        left = list(factors)
        for factor in used:
            for other in left:
                if other.root == factor.root and self._same_read(other.ref, factor.ref):
                    left.remove(other)
                    break
        if coefficients and not self._constant(ph.coefficient, coefficient, env):
            return self._fail(ph, sh, s, env, f"the constant factor {coefficient:.9g}")
        variables = [(v, f) for f in ph.core.factors if (v := self._variable(f.ref)) is not None]
        variables.sort(key=lambda pair: pair[0][0] not in env.variables)
        current: Bindings = env
        for (name, leaf), factor in variables:
            chosen = self._take(name, leaf, factor, left, current)
            if chosen is None:
                return self._fail(ph, sh, s, current, f"no factor that could be `{name}`")
            current = chosen
        if left:
            return self._fail(ph, sh, s, current, f"{len(left)} more factors than expected")
        return current

    def _take(self, name: str, leaf: Ref, wanted: Factor, left: list[Factor], env: Bindings) -> Bindings | None:
        for factor in left:
            if (factor.exponent, factor.root) != (wanted.exponent, wanted.root):
                continue
            found = self._bind(name, leaf, factor.ref, env)
            if found is not None:
                left.remove(factor)
                return found
        return None

    def _same_read(self, a: Ref, b: Ref) -> bool:
        return self.view.peeler.peel(a).same(self.view.peeler.peel(b))
