"""Which files count, and what they are called."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from chexpoint.lineage.places import Kind, Places, listed_names, python_folders


def places(
    project: str = "/data/project", home: str = "/home/me", tmp: str = "/tmp", **more: list[str]
) -> Places:
    return Places(project, home=home, tmp=tmp, environment=more.pop("environment", []), **more)


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/data/project", "."),
        ("/data/project/a/b.csv", "./a/b.csv"),
        ("/data/projects/a", "/data/projects/a"),
        ("/home/me", "~"),
        ("/home/me/data.csv", "~/data.csv"),
        ("/home/meister/data.csv", "/home/meister/data.csv"),
        ("/tmp/plain.txt", "$TMP/plain.txt"),
        ("/srv/data.csv", "/srv/data.csv"),
        ("/data/project/tmpabcdefgh", "./tmpabcdefgh"),
    ],
)
def test_names_are_relative_to_the_folders_that_differ(path: str, name: str) -> None:
    assert places().name(path) == name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/tmp/tmpk3x_9ab1", "$TMP/tmp*"),
        ("/tmp/tmpk3x_9ab1.txt", "$TMP/tmp*.txt"),
        ("/tmp/tmpk3x_9ab1/inner/tmpq8w7e6r5/f", "$TMP/tmp*/inner/tmp*/f"),
        ("/tmp/pymp-k3x_9ab1/listener-abc", "$TMP/pymp-*/listener-abc"),
        ("/tmp/tmpfile", "$TMP/tmpfile"),
        ("/dev/shm/psm_1a2b3c4d", "/dev/shm/psm_*"),
        ("/dev/shm/sem.mp-ab12cd34", "/dev/shm/sem.mp-*"),
        ("/dev/shm/mine", "/dev/shm/mine"),
    ],
)
def test_names_drawn_by_lot_are_left_out(path: str, name: str) -> None:
    assert places().name(path) == name


@pytest.mark.parametrize(
    ("project", "home", "tmp", "path", "name"),
    [
        ("/tmp/p", "/home/me", "/tmp", "/tmp/p/x", "./x"),
        ("/tmp/p", "/home/me", "/tmp", "/tmp/x", "$TMP/x"),
        ("/home/me/p", "/home/me", "/tmp", "/home/me/p/x", "./x"),
        ("/home/me", "/home/me", "/tmp", "/home/me/x", "./x"),
        ("/p", "/", "/tmp", "/srv/x", "/srv/x"),
        ("/", "/home/me", "/tmp", "/home/me/x", "~/x"),
        ("/", "/home/me", "/tmp", "/srv/x", "/srv/x"),
        ("/p", "/home/me", "/p/scratch", "/p/scratch/tmpk3x_9ab1/x", "$TMP/tmp*/x"),
        ("/p", "/home/me", "/p/scratch", "/p/x", "./x"),
        ("/p", "/tmp/home", "/tmp", "/tmp/home/x", "~/x"),
    ],
)
def test_of_folders_within_each_other_the_inner_one_counts(
    project: str, home: str, tmp: str, path: str, name: str
) -> None:
    assert places(project, home, tmp).name(path) == name


def test_links_to_the_folders_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert places(str(tmp_path / "link")).name(str((tmp_path / "real" / "x").resolve())) == "./x"


# ---------------------------------------------------------------- kinds


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/data/project", Kind.DATA),
        ("/srv/data", Kind.DATA),
        ("/", Kind.DATA),
        ("/usr/lib/python3/dist-packages", Kind.ENVIRONMENT),
        ("/usr/library", Kind.DATA),
        ("/proc/1", Kind.IGNORED),
        ("/dev", Kind.IGNORED),
        ("/dev/shm", Kind.DATA),
        ("/dev/shm/psm_x", Kind.DATA),
        ("/home/me/.ipython/profile_default", Kind.IGNORED),
        ("/home/me/.cache/huggingface", Kind.DATA),
        ("/home/me/.cache/matplotlib", Kind.IGNORED),
        ("/tmp/ipykernel_123", Kind.IGNORED),
        ("/srv/ipykernel_123", Kind.DATA),
        ("/data/project/.chex", Kind.IGNORED),
        ("/data/project/a/.ipynb_checkpoints", Kind.IGNORED),
        ("/data/project/__pycache__", Kind.CACHE),
        ("/usr/lib/python3/__pycache__", Kind.ENVIRONMENT),
    ],
)
def test_kinds(folder: str, kind: Kind) -> None:
    assert places().kind(folder) is kind


def test_an_environment_inside_the_project_is_one(tmp_path: Path) -> None:
    project = str(tmp_path.resolve())
    found = places(project, environment=[f"{project}/.venv/lib", f"{project}/.venv/bin"])
    assert found.kind(f"{project}/.venv/lib/python3.11/site-packages/numpy") is Kind.ENVIRONMENT
    assert found.kind(f"{project}/.venv/lib/x/__pycache__") is Kind.ENVIRONMENT
    assert found.kind(f"{project}/.venv/notes") is Kind.DATA
    assert found.kind(f"{project}/lib") is Kind.DATA


@pytest.mark.parametrize("project", ["/usr/share/course", "/usr/share", "/home/me/.jupyter/work"])
def test_the_files_of_a_project_are_data_wherever_it_is(project: str) -> None:
    found = places(project)
    assert found.kind(f"{project}/data") is Kind.DATA
    assert found.kind(project) is Kind.DATA
    assert found.kind(f"{project}/__pycache__") is Kind.CACHE
    assert found.kind("/usr/lib/x") is Kind.ENVIRONMENT


def test_more_folders_can_be_ignored(tmp_path: Path) -> None:
    found = places()
    folder = str(tmp_path.resolve() / "profile")
    assert found.kind(folder) is Kind.DATA
    found.ignore([folder])
    assert found.kind(f"{folder}/db") is Kind.IGNORED


def test_this_python_is_environment_and_this_test_is_not() -> None:
    found = Places("/data/project")
    assert found.kind(str(Path(pytest.__file__).resolve().parent)) is Kind.ENVIRONMENT
    assert found.kind(str(Path(sys.executable).parent.resolve())) is Kind.ENVIRONMENT
    assert found.kind(str(Path(__file__).resolve().parent)) is Kind.DATA


def test_no_prefix_is_taken_whole() -> None:
    assert not {"/", "/usr", "/usr/local"} & set(python_folders())
    assert sys.prefix not in python_folders()


@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/ld.so.cache", "/etc/resolv.conf"])
def test_single_files_of_the_system_are_known(path: str) -> None:
    assert places().is_system_file(path)


@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/myapp.conf", "/srv/passwd", "/etc/x/passwd"])
def test_other_files_beside_them_are_data(path: str) -> None:
    assert not places().is_system_file(path)


def test_caches_do_not_show_in_listings() -> None:
    names = [b"b", b"__pycache__", b"a", b".chex", b".ipynb_checkpoints", b".hidden", b"\xff"]
    assert listed_names(names) == [b".hidden", b"a", b"b", b"\xff"]


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("value", "normal"),
    [
        ("/data/project/x:/home/me/y:/tmp", "./x:~/y:$TMP"),
        ("/data/projects", "/data/projects"),
        ("/var/tmp/x", "/var/tmp/x"),
        ("file:///tmp/x", "file://$TMP/x"),
        ("-I/data/project/include", "-I/data/project/include"),
        ("plain", "plain"),
        (f"{sys.prefix}/bin", "$PREFIX/bin"),
    ],
)
def test_values_name_folders_alike(value: str, normal: str) -> None:
    assert places().normalise(value) == normal


def test_the_inner_folder_counts_in_values_too() -> None:
    assert places("/p", "/home/me", "/p/scratch").normalise("/p/scratch/x;/p/y") == "$TMP/x;./y"


def test_kind_below_a_known_folder_is_that_of_the_folder(tmp_path: Path) -> None:
    project = tmp_path / "env" / "share" / "project"
    places = Places(str(project), environment=[str(tmp_path / "env")])
    folders = ["/dev", "/dev/shm", "/dev/shm/x", "/proc", "/proc/self", str(tmp_path)]
    folders += [str(tmp_path / "env"), str(tmp_path / "env" / "lib"), str(project.parent)]
    folders += [str(project), str(project / "data"), str(project / "__pycache__")]
    for folder in folders:
        parent = places.kind(folder.rpartition("/")[0])
        assert places.kind_below(parent, folder) is places.kind(folder), folder
