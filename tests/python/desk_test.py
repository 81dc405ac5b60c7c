"""Point 14 of the planner's desk: Python users had a subprocess, and no more."""

import pathlib

import shardsim


def test_point_14_a_question_is_a_frame_in_one_line() -> None:
    table = shardsim.sweep(
        "gpt2", {"training.micro_batch_size": [1, 2]}, gpus=8, training={"global_batch_size": 16}
    ).df()
    assert list(table["training.micro_batch_size"]) == [1, 2] and (table["step_time_s"] > 0).all()


def test_point_14_every_verb_of_a_planner_is_a_function() -> None:
    scenario = {
        "model": "gpt2",
        "system": {"preset": "dgx-h100", "nodes": 1},
        "training": {"global_batch_size": 8},
    }
    assert shardsim.run(scenario).mfu > 0
    assert shardsim.check(scenario) == []
    assert shardsim.diff(scenario, system={"preset": "dgx-b200"}).sentence
    assert shardsim.plan("gpt2", gpus=8, gpu="h100", fix={"tp": 1, "pp": 1, "cp": 1}).best["layout"]
    assert shardsim.validate("bloom_176b", sample=True).overall["step_time_s"]["rows"] > 0
    assert list(pathlib.Path().iterdir()) == []  # Nothing is left in the user's folder.
