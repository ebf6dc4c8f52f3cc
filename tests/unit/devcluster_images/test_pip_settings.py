"""From `pip config list` to a pip.conf that works inside a build."""

import stat
from configparser import ConfigParser
from pathlib import Path

from devcluster.images.pip_settings import PipSettings, written


def parsed(settings: PipSettings) -> dict[str, str]:
    parser = ConfigParser(interpolation=None)
    parser.read_string(settings.text())
    return dict(parser["global"])


def test_nothing_configured_gives_an_empty_conf_and_no_volumes() -> None:
    settings = PipSettings.of("")
    assert parsed(settings) == {}
    assert settings.volume_arguments() == []


def test_addresses_stay_as_they_are() -> None:
    settings = PipSettings.of("global.index-url='https://packages.example/simple'")
    assert parsed(settings) == {"index-url": "https://packages.example/simple"}
    assert settings.volumes == {}


def test_a_folder_of_wheels_is_mounted_under_a_neutral_name() -> None:
    settings = PipSettings.of("global.find-links='/srv/wheels'")
    assert parsed(settings) == {"find-links": "/mnt/pip/0"}
    assert settings.volume_arguments() == ["--volume=/srv/wheels:/mnt/pip/0:ro"]


def test_an_index_on_disk_is_mounted_with_the_files_beside_it() -> None:
    settings = PipSettings.of("global.extra-index-url='file:///a/simple file:///b/simple'")
    places = parsed(settings)["extra-index-url"].split()
    assert places == ["file:///mnt/pip/0/simple", "file:///mnt/pip/1/simple"]
    assert settings.volumes == {"/a": "/mnt/pip/0", "/b": "/mnt/pip/1"}


def test_an_index_at_the_top_does_not_bring_the_whole_disk() -> None:
    settings = PipSettings.of("global.index-url='file:///simple'")
    assert settings.volumes == {"/simple": "/mnt/pip/0"}


def test_one_place_named_twice_is_mounted_once() -> None:
    settings = PipSettings.of(":env:.find-links='/srv/wheels'\nglobal.find-links='/srv/wheels'")
    assert settings.volumes == {"/srv/wheels": "/mnt/pip/0"}


def test_the_environment_wins_over_files() -> None:
    settings = PipSettings.of(":env:.timeout='9'\nglobal.timeout='5'")
    assert parsed(settings) == {"timeout": "9"}


def test_what_says_nothing_about_the_way_to_packages_is_left_out() -> None:
    settings = PipSettings.of("global.require-virtualenv='true'\ninstall.user='yes'")
    assert parsed(settings) == {}


def test_a_written_conf_is_its_owners_alone_and_gone_afterwards(tmp_path: Path) -> None:
    settings = PipSettings.of("global.index-url='https://me:secret@packages.example/simple'")
    with written(settings, tmp_path / "pip.conf") as conf:
        assert stat.S_IMODE(conf.stat().st_mode) == 0o600
        assert conf.read_text() == settings.text()
    assert not conf.exists()
