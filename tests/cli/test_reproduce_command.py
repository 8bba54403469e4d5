"""`engram reproduce` from within: exit codes, interruptions, and what it leaves behind."""

import dataclasses
import signal
import subprocess
import sys
import time

import pytest
from matplotlib.figure import Figure

from engram import audits, figures, report
from engram._checks import InputError
from engram.cli import _reproduce
from engram.figures import fig1_level_lines as fig1


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Figure 1 with few points and a plain picture: its own takes seconds, and has tests of its own."""
    monkeypatch.setattr(fig1, "SCALES", {"quick": fig1.Settings(num=50), "paper": fig1.Settings()})
    monkeypatch.setattr(fig1, "draw", plain_picture)


def plain_picture(data):
    picture = Figure(figsize=(3, 2))
    picture.add_subplot().plot(data.correlation.values)
    return picture


def left(out):
    return sorted(path.name for path in out.iterdir())


def test_values_out_of_tolerance_are_reported_with_exit_1(tmp_path, monkeypatch, capsys):
    true = fig1.compare

    def spoilt(data):
        first, *rest = true(data)
        return [dataclasses.replace(first, ours=first.ours + 1e-6), *rest]

    monkeypatch.setattr(fig1, "compare", spoilt)
    with pytest.raises(SystemExit) as end:
        _reproduce.reproduce(["fig1"], "quick", tmp_path)
    assert end.value.code == 1
    output = capsys.readouterr()
    assert "7 of 8 within tolerance" in output.out
    assert "the check failed: fig1: loss" in output.err
    assert "These checks failed" in (tmp_path / "report.html").read_text()


class AuditHere:
    """In this process, of one claim, and done when first asked."""

    def __init__(self, claim):
        self.claims, self.total = [report.checked(*audits.audit([claim]))], 1

    def is_done(self, patience=0.0):
        return True

    def end(self):
        pass


def test_a_changed_verdict_is_exit_1(tmp_path, monkeypatch, capsys):
    claim = audits.Claim("X", "", "x", "x", "HOLDS", None)
    monkeypatch.setattr(_reproduce, "_Audit", lambda: AuditHere(claim))
    with pytest.raises(SystemExit) as end:
        _reproduce.reproduce(["claims"], "quick", tmp_path)
    assert end.value.code == 1
    assert (
        "the check failed: X: the verdict is NOT-TESTABLE, on record HOLDS"
        in capsys.readouterr().err
    )
    assert left(tmp_path) == ["claims.json", "report.html"]


def test_interrupting_keeps_finished_figures_and_lists_the_rest(tmp_path, monkeypatch, here):
    def stop(settings, tell):
        assert "Figure 2 and Figure 3" in (tmp_path / "report.html").read_text()  # fills as it goes
        raise KeyboardInterrupt

    (tmp_path / "fig2.png").write_text("of an older run")
    monkeypatch.setattr(figures.module_of("fig2"), "compute", stop)
    done = here("reproduce", "fig2", "fig1", "fig3", "--out", tmp_path)
    assert done.returncode == 130
    assert (
        "interrupted; fig2, fig3 not made. To make them: engram reproduce fig2 fig1 fig3 --out"
        in done.stderr
    )
    assert left(tmp_path) == [
        "explorer.html",
        "fig1.nc",
        "fig1.pdf",
        "fig1.png",
        "fig2.png",
        "report.html",
    ]
    page = (tmp_path / "report.html").read_text()
    assert "Figure 2 and Figure 3 not made" in page
    assert 'href="explorer.html#preset=fig1"' in page  # beside the page, and it has that preset
    assert '"id":"fig1"' in (tmp_path / "explorer.html").read_text(encoding="utf-8")
    assert 'id="fig2"' not in page  # the older picture is not passed off as this run's


def test_claims_are_shown_while_a_figure_is_still_computed(tmp_path, monkeypatch, capsys):
    claim = audits.Claim("X", "", "x", "x", "NOT-TESTABLE", None)
    monkeypatch.setattr(_reproduce, "_Audit", lambda: AuditHere(claim))
    compute, pages = fig1.compute, []

    def looked_at(settings, tell):
        tell(0, 1)
        pages.append((tmp_path / "report.html").read_text())
        return compute(settings, tell)

    monkeypatch.setattr(fig1, "compute", looked_at)
    _reproduce.reproduce(["fig1", "claims"], "quick", tmp_path)
    assert "Still being computed" in pages[0]
    assert 'id="claims"' in pages[0]
    lines = capsys.readouterr().out.splitlines()
    starts = [line.split()[0] for line in lines if not line.startswith((" ", "report"))]
    assert starts == ["making", "claims", "fig1"]
    assert "Still being computed" not in (tmp_path / "report.html").read_text()


def test_claims_are_checked_in_a_process_of_their_own():
    audit = _reproduce._Audit(["C04", "C12"])
    while not audit.is_done(0.2):
        pass
    assert [claim.id for claim in audit.claims] == ["C04", "C12"]
    assert [claim.changes for claim in audit.claims] == [[], []]


def test_an_audit_that_ends_early_is_reported():
    audit = _reproduce._Audit(["C56"])
    audit.end()
    with pytest.raises(RuntimeError, match="ended early"):
        while not audit.is_done(0.2):
            pass


def test_reproduce_prints_a_line_before_loading_libraries(tmp_path):
    code = (
        "import sys\n"
        "from engram.cli import _reproduce\n"
        "def stop(*args): raise SystemExit('jax' in sys.modules)\n"
        "_reproduce._announce = stop\n"
        "_reproduce.reproduce([], 'quick', 'out')"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_scale_that_a_figure_does_not_have_is_its_quick_one():
    assert figures.settings_at("fig1", "medium") == figures.settings_at("fig1", "quick")
    sizes = [figures.settings_at("fig7", scale) for scale in figures.SCALES]
    costs = [each.sequences * each.length * each.steps for each in sizes]
    assert costs == sorted(costs)


def test_leftovers_of_a_killed_run_are_removed(tmp_path):
    (tmp_path / ".fig1-abcdefgh.nc").write_text("half of an older figure")
    (tmp_path / ".mine").write_text("not ours")
    _reproduce.reproduce(["fig1"], "quick", tmp_path)
    assert left(tmp_path) == [
        ".mine",
        "explorer.html",
        "fig1.nc",
        "fig1.pdf",
        "fig1.png",
        "report.html",
    ]


def test_reproducing_twice_gives_the_same_files(tmp_path):
    for folder in ("one", "two"):
        _reproduce.reproduce(["fig1"], "quick", tmp_path / folder)
    for name in ("fig1.png", "fig1.pdf", "fig1.nc"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_failed_write_leaves_the_old_figure(tmp_path, monkeypatch):
    _reproduce.reproduce(["fig1"], "quick", tmp_path)
    before = (tmp_path / "fig1.png").read_bytes()

    class Picture:
        def savefig(self, path, **options):
            path.write_bytes(b"half")
            raise OSError("disk full")

    monkeypatch.setattr(fig1, "draw", lambda data: Picture())
    with pytest.raises(OSError, match="disk full"):
        _reproduce.reproduce(["fig1"], "quick", tmp_path)
    assert (tmp_path / "fig1.png").read_bytes() == before
    assert not [name for name in left(tmp_path) if name.startswith(".")]


def test_an_invalid_scale_is_refused_before_any_work(tmp_path):
    with pytest.raises(InputError, match="--scale"):
        _reproduce.reproduce(["fig1"], "huge", tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_an_interrupt_signal_works_at_any_time(tmp_path, surroundings):
    """Also within a callback, where Python drops the exception; then the next part hears of it."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.html").write_text("of an older run")
    for delay in (2.0, 5.0):
        command = [
            sys.executable,
            "-m",
            "engram",
            "reproduce",
            "fig4",
            "fig6",
            "--out",
            str(out),
        ]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=surroundings)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=120)
        assert process.returncode == 130, output
        assert "interrupted" in output
    assert not [name for name in left(out) if name.startswith(".")]
