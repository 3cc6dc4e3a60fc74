"""The soak's table in docs/reliability.md: rows that ran are replaced, all else stays."""

from reliability import HEADING, PAGE, Row, table, with_rows

OLD = Row(6, "damage", "1 flip", "1 detected", "2020-01-01")
NEW = Row(6, "damage", "500 flips", "500 detected", "2020-02-02")
OTHER = Row(12, "garbage", "9 lines", "none misaligned", "2020-02-02")


def test_a_row_takes_the_place_of_the_one_with_its_number() -> None:
    page = f"# Text\n\n{table([OLD, OTHER])}\nMore text.\n"
    assert with_rows(page, [NEW]) == f"# Text\n\n{table([NEW, OTHER])}\nMore text.\n"


def test_rows_are_added_in_the_order_of_their_numbers() -> None:
    page = f"{HEADING}\nMore text.\n"
    assert with_rows(with_rows(page, [OTHER]), [OLD]) == f"{table([OLD, OTHER])}\nMore text.\n"


def test_the_page_has_a_place_for_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    changed = with_rows(page, [Row(99, "a fault", "once", "nothing", "2020-01-01")])
    assert changed.replace("| 99 | a fault | once | nothing | 2020-01-01 |\n", "") == page
