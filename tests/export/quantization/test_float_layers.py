"""The search for the layers to leave in float, on files that are only numbers."""

from collections.abc import Mapping

import pytest

from keras_pe.export.parity.statistics.confidence import upper_bound
from keras_pe.export.quantization.float_layers import Search, least_rows, most_changed, rank, risk
from keras_pe.export.quantization.quantization_records import Goal, LayerEffect, Score, Trial

ROWS = 10_000
SAVED = 0.02


FLOAT_BYTES = 100_000


def search(harm: Mapping[str, float], goal: Goal, budget: int = 15, sizes: Mapping[str, float] | None = None) -> Search:
    """Returns a search over layers. A file changes as many of 10,000 rows as the layers that it quantizes add up to."""
    saved = {name: (sizes or {}).get(name, SAVED) for name in harm}
    order = rank([LayerEffect(name, {"MatMul": 1}, saved[name], effect) for name, effect in harm.items()])

    def score(floats: tuple[str, ...]) -> Score:
        changed = sum(effect for name, effect in harm.items() if name not in floats)
        return Score(ROWS, int(changed), changed / ROWS, 0.0, predicted=changed / ROWS)

    def write(floats: tuple[str, ...]) -> Trial:
        lost = sum(saved[name] for name in harm if name not in floats)
        return Trial(floats, round(FLOAT_BYTES * (1 - lost)), score(floats))

    return Search(order, goal, FLOAT_BYTES, budget, ROWS, write, lambda trial: score(trial.layers_in_float))


HARM = {f"layer_{number}": 0.0 for number in range(30)} | {"layer_7": 50.0, "layer_21": 30.0}


@pytest.mark.parametrize("goal", [Goal("decisions", 0.999), Goal("error", 0.0005)], ids=lambda goal: goal.kind)
def test_only_the_harmful_layers_return_to_float(goal: Goal) -> None:
    found = search(HARM, goal)
    best = found.run()
    assert best.holds
    assert set(best.layers_in_float) == {"layer_7", "layer_21"}
    assert len(found.trials) <= 15


def test_a_file_with_everything_quantized_is_proved_first() -> None:
    found = search(dict.fromkeys(HARM, 0.0), Goal("decisions", 0.999))
    best = found.run()
    assert best.holds
    assert best.layers_in_float == ()
    assert len(found.trials) == 1


@pytest.mark.parametrize("budget", [1, 2, 5, 15])
def test_a_search_ends_within_its_budget_and_names_the_nearest_file(budget: int) -> None:
    found = search(dict.fromkeys(HARM, 40.0), Goal("decisions", 0.9999), budget)
    best = found.run()
    assert not best.holds
    assert len(found.trials) == min(budget, 6)
    assert best.held_out is not None
    assert best.held_out.changed == min(trial.calibration.changed for trial in found.trials)


def test_a_size_keeps_the_layers_in_float_that_matter_most_for_their_bytes() -> None:
    harm = {"large": 40.0, "small": 30.0, "harmless": 0.0}
    found = search(harm, Goal("size", 0.55), sizes={"large": 0.4, "small": 0.1, "harmless": 0.1})
    best = found.run()
    assert best.holds
    assert set(best.layers_in_float) == {"small"}
    refused = search(harm, Goal("size", 0.5))
    assert not refused.run().holds


def test_a_candidate_that_the_held_out_rows_refute_is_followed_by_a_safer_one() -> None:
    goal = Goal("decisions", 0.999)
    names = [f"layer_{number}" for number in range(16)]
    order = rank([LayerEffect(name, {}, SAVED, 1.0) for name in names])
    unseen = Score(ROWS, 400, 0.1, 0.1)

    def write(floats: tuple[str, ...]) -> Trial:
        return Trial(floats, 1000 + len(floats), Score(ROWS, 0, 0.0, 0.0))

    def prove(trial: Trial) -> Score:
        return Score(ROWS, 0, 0.0, 0.0) if len(trial.layers_in_float) >= 10 else unseen

    found = Search(order, goal, 10_000, 15, ROWS, write, prove)
    best = found.run()
    assert best.holds
    assert len(best.layers_in_float) >= 10
    proved = [trial for trial in found.trials if trial.held_out]
    assert [trial.holds for trial in proved] == [False, False, True]


def test_a_needless_layer_is_quantized_again_for_a_worthwhile_share_of_the_bytes() -> None:
    saved = {"small": 0.02, "large": 0.3, "harmful": 0.1, "harmless": 0.1}
    order = [LayerEffect(name, {}, share, 1.0) for name, share in saved.items()]

    def write(floats: tuple[str, ...]) -> Trial:
        harm = 0.0 if "harmful" in floats else 0.01
        return Trial(floats, 1000 + len(floats), Score(ROWS, int(harm * ROWS), harm, 0.0, predicted=harm))

    found = Search(order, Goal("decisions", 0.999), 10_000, 15, ROWS, write, lambda trial: trial.calibration)
    assert found.run().layers_in_float == ("small", "harmful")


def test_the_bounds_of_all_files_hold_together_with_95_percent() -> None:
    assert sum(risk(look) for look in range(1, 10_000)) == pytest.approx(0.05, abs=1e-5)
    assert sum(risk(look) for look in range(1, 16)) < 0.05


@pytest.mark.parametrize("share", [0.9, 0.99, 0.999])
def test_the_least_rows_prove_a_share_without_a_change_and_one_row_less_does_not(share: float) -> None:
    rows = least_rows(share)
    assert most_changed(Goal("decisions", share), rows) == 0
    assert most_changed(Goal("decisions", share), rows - 1) == -1
    assert upper_bound(0, rows, 1 - risk(1)) <= 1 - share


def test_layers_are_ranked_by_their_squared_effect_for_each_byte() -> None:
    effects = [
        LayerEffect("small", {}, 0.001, 1.0),
        LayerEffect("large", {}, 0.1, 2.0),
        LayerEffect("free", {}, -0.01, 1.5),
        LayerEffect("harmless and free", {}, 0.0, 1e-4),
    ]
    ranked = rank(effects)
    assert [each.layer for each in ranked] == ["free", "small", "large", "harmless and free"]
    assert sum(each.share for each in ranked) == pytest.approx(1.0)
