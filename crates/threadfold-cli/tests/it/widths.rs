//! How wide lines are: whatever a transcript contains, `view` and `list` keep to the width.

use serde_json::json;
use unicode_width::UnicodeWidthStr;

use crate::claude::Transcript;
use crate::env::TestEnv;

const RECYCLE: &str = "\u{267b}\u{fe0f}";
const FAMILY: &str = "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}";

/// Keeps a session with wide tables and emoji, in the main conversation and three levels below.
fn keep_tables(env: &TestEnv) {
    let cells = |cell: &str| format!("|{}\n", format!(" {cell} |").repeat(9));
    let table = format!(
        "{}{}{}{}",
        cells("a rather long title"),
        cells("---"),
        cells("supercalifragilistic words"),
        cells(&format!("{RECYCLE} {RECYCLE}{RECYCLE} 1\u{fe0f}\u{20e3}")),
    );
    let small = format!("| a | b |\n|---|--:|\n| {RECYCLE} | {RECYCLE}{RECYCLE} |\n| xy | 1 |\n");
    let levels = 4;
    for level in 0..levels {
        let mut file = match level {
            0 => Transcript::new("tables"),
            _ => Transcript::of_agent("tables", &format!("a{level}")),
        };
        file = file.prompt(format!("- {}", format!("{RECYCLE} 日本語 word ").repeat(12)));
        file = file.says(&format!("{table}\n\n{small}\n\n> {}", RECYCLE.repeat(90)));
        file = file.calls("b", "Bash", json!({"command": RECYCLE.repeat(60)}));
        file = file.gives("b", RECYCLE.repeat(90));
        file = file.says(&format!("{FAMILY} {}", FAMILY.repeat(90)));
        if level + 1 < levels {
            let (call, next) = (format!("c{level}"), format!("a{}", level + 1));
            let asked = json!({"prompt": "Work", "description": RECYCLE.repeat(60)});
            file = file.calls(&call, "Task", asked).answered_by(&call, &next, "Done");
        }
        file.keep(env, "p");
    }
}

#[test]
fn tables_and_emoji_keep_to_the_width_also_inside_subagents() {
    let env = TestEnv::new();
    keep_tables(&env);
    for width in [20, 24, 40, 79, 80, 120, 160] {
        for options in [&[][..], &["--full"]] {
            let text = width.to_string();
            let shown = env.done(&[&["view", "tables", "--width", &text], options].concat());
            for line in shown.lines() {
                assert!(line.width() <= width, "{width}: {line}");
            }
            assert!(shown.contains(FAMILY) && !shown.contains("200d"), "{width}: {shown}");
            // Nine columns do not fit: each cell has a line of its own.
            let is_stacked = shown.contains("a rather long title: ");
            assert_eq!(is_stacked, (40..160).contains(&width), "{width}: {shown}");
        }
    }
}

#[test]
fn columns_of_a_table_are_aligned_whatever_their_characters() {
    let env = TestEnv::new();
    keep_tables(&env);
    let shown = env.done(&["view", "tables", "--width", "120", "--no-subagents"]);
    let start = shown.lines().position(|it| it.trim() == "a      b").unwrap();
    let lines: Vec<&str> = shown.lines().skip(start).take(4).collect();
    let expected = [
        "  a      b".to_owned(),
        "  ──  ────".to_owned(),
        format!("  {RECYCLE}  {RECYCLE}{RECYCLE}"),
        "  xy     1".to_owned(),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_long_id_stands_above_its_row_and_widens_no_other() {
    let env = TestEnv::new();
    let long = "0b5e55ed-aaaa-4000-8000-0000000000";
    for id in [&format!("{long}01"), &format!("{long}02"), "5e551011-bbbb-4000-8000-000000000003"] {
        Transcript::new(id).prompt("Hello").says("Hi.").keep(&env, "p");
    }
    let shown = env.done(&["list"]);
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    assert_eq!(lines[0], "id        when        project  title  blocks", "{shown}");
    let row = "          2025-03-01  p        Hello       2";
    let mut rest = lines[2..].to_vec();
    rest.sort_unstable();
    let (first, second) = (format!("{long}01"), format!("{long}02"));
    let last = "5e551011  2025-03-01  p        Hello       2";
    assert_eq!(rest, [row, row, &first, &second, last]);
    let place = |text: &str| lines.iter().position(|it| *it == text).unwrap();
    assert_eq!(lines[place(&first) + 1], row);
}
