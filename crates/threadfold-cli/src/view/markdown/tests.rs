//! Tests how Markdown is drawn, without colours except where they matter.

use insta::assert_snapshot;

use super::*;

fn drawn(text: &str, width: usize) -> String {
    let mut out = Vec::new();
    draw_markdown(&mut Page::new(&mut out, width, false), text).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn headings_paragraphs_and_rules() {
    assert_snapshot!(drawn("# One\nSome words that are long enough to be wrapped.\nA new line.\n\n## Two\n\nMore.\n\n---\nEnd.", 30), @"
    # One

    Some words that are long
    enough to be wrapped.
    A new line.

    ## Two

    More.

    ──────────────────────────────

    End.
    ");
}

#[test]
fn lists_nest_and_wrap_under_their_text() {
    assert_snapshot!(drawn("Look:\n- one is a longer item that wraps\n  - below\n    1. deep\n    2. deeper\n- [x] done\n- [ ] open\n\nAfter.\n\n9. nine\n10. ten", 24), @"
    Look:

    • one is a longer item
      that wraps
      • below
        1. deep
        2. deeper
    • [x] done
    • [ ] open

    After.

    9. nine
    10. ten
    ");
}

#[test]
fn loose_lists_keep_their_gaps() {
    assert_snapshot!(drawn("1. one\n\n   more of one\n\n2. two", 40), @"
    1. one

       more of one

    2. two
    ");
}

#[test]
fn code_keeps_its_lines() {
    assert_snapshot!(drawn("Run `ls -l`:\n\n```sh\nfor f in *; do\n\techo \"$f\" and a line that is too long for this\ndone\n```\nThen:\n\n    indented\n", 40), @r#"
    Run `ls -l`:

        for f in *; do
            echo "$f" and a line that is too
        long for this
        done

    Then:

        indented
    "#);
}

#[test]
fn links_show_their_target() {
    assert_snapshot!(drawn("[the docs](https://example.com/a) <https://example.com> ![a cat](cat.png) <a@example.com>", 100), @"the docs (https://example.com/a) https://example.com [image: a cat] (cat.png) a@example.com");
}

#[test]
fn quotes_have_a_bar() {
    assert_snapshot!(drawn("> said **once**\n> and again\n>\n> > deeper\n\nno quote", 40), @"
    ▏ said once
    ▏ and again
    ▏
    ▏ ▏ deeper

    no quote
    ");
}

#[test]
fn tables_fit() {
    let table = "| file | what it does |\n|---|--:|\n| `a.rs` | parses, and a good deal more than can be said here |\n| b.rs | **draws** |\n";
    assert_snapshot!(drawn(table, 60), @"
    file                                          what it does
    ──────  ──────────────────────────────────────────────────
    `a.rs`  parses, and a good deal more than can be said here
    b.rs                                                 draws
    ");
    assert_snapshot!(drawn(table, 30), @"
    file              what it does
    ──────  ──────────────────────
    `a.rs`      parses, and a good
             deal more than can be
                         said here
    b.rs                     draws
    ");
}

#[test]
fn html_is_text() {
    assert_snapshot!(drawn("<b>bold</b> and\n\n<details>\n<summary>x</summary>\n</details>\n\nend", 40), @"
    <b>bold</b> and

    <details>
    <summary>x</summary>
    </details>

    end
    ");
}

#[test]
fn colours_are_those_of_the_terminal() {
    let mut out = Vec::new();
    draw_markdown(&mut Page::new(&mut out, 60, true), "**bold** `code` *it* ~~no~~ [x](y)")
        .unwrap();
    assert_snapshot!(String::from_utf8(out).unwrap().replace('\u{1b}', "^"), @"^[1mbold^[0m ^[36m`code`^[0m ^[3mit^[0m ^[9mno^[0m ^[4m^[34mx^[0m (y)");
}

#[test]
fn deep_nesting_is_bounded() {
    let text = format!("{}deep", "> ".repeat(5_000));
    assert!(drawn(&text, 40).lines().all(|line| line.chars().count() < 80));
    drawn(&"* ".repeat(5_000), 40);
    drawn(&"[".repeat(50_000), 40);
}
