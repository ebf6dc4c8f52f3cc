"""The timeouts of a job in --rdzv-conf."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.job.elasticity import Elasticity, ElasticityError, GroupSuccess, RoleSize
from resile.job.rendezvous_conf import elasticity_of, read_conf, read_roles, write_roles
from resile.launch.master_process import conf_text


def test_our_own_keys_and_those_of_other_backends_mean_the_same() -> None:
    ours = read_conf({"last_call": "1", "join_timeout": "2", "lease": "3"})
    theirs = read_conf({"last_call_timeout": "1", "timeout": "2", "lease-timeout": "3"})
    assert ours == theirs
    assert ours.settings == {"last_call": 1.0, "join_timeout": 2.0, "lease": 3.0}


def test_keys_without_a_meaning_here_are_ignored_whatever_they_hold() -> None:
    conf = read_conf({"is_host": "true", "keep_alive_interval": "often"})
    assert conf.settings == {}
    assert set(conf.ignored) == {"is_host", "keep_alive_interval"}


def test_keys_of_later_versions_of_torch_are_passed_over() -> None:
    conf = read_conf({"cas_backoff_max_seconds": "2", "some_later_setting": "x", "lease": "3"})
    assert conf.settings == {"lease": 3.0}
    assert set(conf.ignored) == {"cas_backoff_max_seconds", "some_later_setting"}


@pytest.mark.parametrize("key", ["", " ", "min_nodes", "max_nodes"])
def test_keys_that_nobody_can_mean_are_refused(key: str) -> None:
    with pytest.raises(ElasticityError, match="--rdzv-conf"):
        read_conf({key: "3"})


def test_the_key_itself_goes_before_another_name_for_it() -> None:
    conf = read_conf({"join_timeout": "5", "timeout": "9"})
    assert conf.settings == {"join_timeout": 5.0}


def test_a_slip_of_the_pen_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(ElasticityError, match=r"--rdzv-conf leas=3: .* did you mean lease\?"):
        read_conf({"leas": "3"})


@pytest.mark.parametrize("value", ["soon", "", "nan", "inf", "-inf"])
def test_what_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(ElasticityError, match="expected a number"):
        read_conf({"lease": value})


def test_a_count_must_be_whole() -> None:
    with pytest.raises(ElasticityError, match=r"max_restarts=1.5: expected a whole number"):
        read_conf({"max_restarts": "1.5"})


def test_the_key_max_restarts_goes_before_the_flag() -> None:
    conf = read_conf({"max_restarts": "7", "node_unit": "2"})
    made = elasticity_of(conf, (2, 4), max_restarts=1)
    assert (made.min_nodes, made.max_nodes, made.node_unit, made.max_restarts) == (2, 4, 2, 7)


def test_what_does_not_fit_together_is_refused() -> None:
    with pytest.raises(ElasticityError, match="node_unit"):
        elasticity_of(read_conf({"node_unit": "8"}), (2, 4), max_restarts=1)


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=6), max_size=4))
def test_any_text_is_read_or_refused(pairs: dict[str, str]) -> None:
    try:
        conf = read_conf(pairs)
    except ElasticityError:
        return
    assert set(conf.settings) <= set(Elasticity.__struct_fields__)
    assert not set(conf.ignored) & set(Elasticity.__struct_fields__)


def test_sizes_of_roles_are_written_and_read() -> None:
    roles = read_conf({"roles": "chief:1:1/worker:1:4:2"}).roles
    assert roles == (
        RoleSize(name="chief", min_nodes=1, max_nodes=1),
        RoleSize(name="worker", min_nodes=1, max_nodes=4, node_unit=2),
    )
    assert read_roles(write_roles(roles)) == roles


@pytest.mark.parametrize("text", ["chief", "chief:1", "chief:1:x", ":1:2", "chief:1:2:3:4"])
def test_what_is_no_size_of_a_role_is_named(text: str) -> None:
    with pytest.raises(ElasticityError, match="write NAME:MIN:MAX"):
        read_conf({"roles": text})


@pytest.mark.parametrize("success", list(GroupSuccess))
@pytest.mark.parametrize("independent", [True, False])
def test_every_setting_travels_as_text(success: GroupSuccess, independent: bool) -> None:
    roles = (RoleSize(name="chief"), RoleSize(name="worker", max_nodes=4))
    meant = Elasticity(
        max_nodes=5, roles=roles, lease=2.5, success=success, independent=independent
    )
    pairs = dict(pair.split("=", 1) for pair in conf_text(meant).split(","))
    assert elasticity_of(read_conf(pairs), (1, 5), max_restarts=3) == meant


@pytest.mark.parametrize(("key", "value"), [("success", "some"), ("independent", "maybe")])
def test_words_that_are_not_known_are_refused_with_those_that_are(key: str, value: str) -> None:
    with pytest.raises(ElasticityError, match=f"{key}={value}: write one of "):
        read_conf({key: value})
