"""The page of benchmarks is made of what scripts print, one section at a time."""

import pytest

from tests.benchmarks import page


def test_scripts_of_the_page_exist_and_say_what_they_compare():
    for name in page.SCRIPTS:
        path = page.ROOT / "tests" / "benchmarks" / f"{name}.py"
        assert len(page.description(path)) > 20


def test_a_section_holds_the_output_and_the_conditions(tmp_path):
    script = tmp_path / "tables.py"
    script.write_text('"""Reading beside nothing.\n\nMore."""\nprint("a  1.5")\n')
    made = page.section(script)
    assert made.startswith("## tables\n\nReading beside nothing.\n\n```text\na  1.5\n```\n")
    assert " cores, " in made
    assert "numpy " in made


def test_a_script_that_fails_or_takes_too_long_says_so(tmp_path):
    script = tmp_path / "peers.py"
    script.write_text('"""Fails."""\nraise SystemExit("no peers")\n')
    assert "```text\nno peers\n```" in page.section(script)
    script.write_text('"""Waits."""\nimport time\ntime.sleep(60)\n')
    assert "stopped after 0.5 seconds" in page.section(script, longest=0.5)


def test_other_sections_stay_and_the_order_is_that_of_the_list():
    old = page.replaced("", {"tables": "## tables\n\nold\n", "peers": "## peers\n\nkept\n"})
    new = page.replaced(old, {"tables": "## tables\n\nnew\n", "learning": "## learning\n\nx\n"})
    assert new.startswith("# Benchmarks\n")
    assert new.endswith("## peers\n\nkept\n\n## learning\n\nx\n\n## tables\n\nnew\n")
    assert page.replaced(new, {}) == new


def test_a_name_that_is_none_is_refused():
    with pytest.raises(SystemExit, match="sweeps is no benchmark of the page, which has peers"):
        page.main(["sweeps"])


def test_the_page_is_made_by_the_command():
    text = page.PAGE.read_text("utf-8")
    assert page.replaced(text, {}) == text
