//! Interprets the control sequences in the output of programs.
//!
//! Colours and effects become styles, restricted to the sixteen colours of the terminal's own
//! palette. A carriage return and a backspace overwrite, as on a terminal. Every other complete
//! sequence is dropped. An incomplete one stays in the text, where it is shown escaped: it must
//! not hide what follows it.

use anstyle::{AnsiColor, Effects, Style};

use super::palette::both;
use super::text::Span;

/// Returns the lines of a program's output, with their colours over a base style.
pub(crate) fn colored_lines(text: &str, base: Style) -> Vec<Vec<Span>> {
    let mut reader = Reader::default();
    let lines = text.lines().map(|line| {
        let pieces = reader.line(line);
        pieces.into_iter().map(|(text, style)| Span::new(&text, both(base, style))).collect()
    });
    lines.collect()
}

/// Returns a program's output without control sequences.
pub(crate) fn without_colors(text: &str) -> String {
    if !text.contains(['\u{1b}', '\r', '\u{8}']) && !text.contains(is_c1) {
        return text.to_owned();
    }
    let mut reader = Reader::default();
    let lines = text
        .split('\n')
        .map(|line| reader.line(line).into_iter().map(|(text, _)| text).collect::<String>());
    lines.collect::<Vec<_>>().join("\n")
}

/// Reads lines; a colour lasts until it is changed.
#[derive(Default)]
struct Reader {
    style: Style,
}

impl Reader {
    /// Returns a line as pieces of one style each.
    fn line(&mut self, line: &str) -> Vec<(String, Style)> {
        let line = seven_bit(line);
        let mut pieces: Vec<(String, Style)> = Vec::new();
        let mut rest = line.trim_end_matches('\r');
        while let Some(letter) = rest.chars().next() {
            let sequence = if letter == '\u{1b}' { sequence_length(rest) } else { None };
            if let Some(length) = sequence {
                self.apply(&rest[..length]);
                rest = &rest[length..];
                continue;
            }
            match letter {
                // The next text overwrites the line.
                '\r' => pieces.clear(),
                '\u{8}' => {
                    if let Some((text, _)) = pieces.last_mut() {
                        text.pop();
                    }
                    pieces.retain(|(text, _)| !text.is_empty());
                }
                letter => match pieces.last_mut() {
                    Some((text, style)) if *style == self.style => text.push(letter),
                    _ => pieces.push((letter.to_string(), self.style)),
                },
            }
            rest = &rest[letter.len_utf8()..];
        }
        pieces
    }

    /// Applies a complete sequence, if it sets colours or effects.
    fn apply(&mut self, sequence: &str) {
        let Some(codes) = sequence.strip_prefix("\u{1b}[").and_then(|it| it.strip_suffix('m'))
        else {
            return;
        };
        let mut codes = codes.split([';', ':']).map(|code| match code {
            "" => Some(0),
            code => code.parse::<u8>().ok(),
        });
        while let Some(code) = codes.next() {
            let Some(code) = code else { return };
            if code == 38 || code == 48 || code == 58 {
                let color = match codes.next().flatten() {
                    Some(5) => codes.next().flatten().and_then(palette_color),
                    // Three components follow; they are of no use without their colour.
                    Some(2) => codes.nth(2).and(None),
                    _ => return,
                };
                if code == 38 {
                    self.style = self.style.fg_color(color.map(Into::into));
                }
                continue;
            }
            self.style = styled(self.style, code);
        }
    }
}

/// Returns a style after a code. Backgrounds, blinking, and concealed or reversed text do not
/// apply: they could hide text.
fn styled(style: Style, code: u8) -> Style {
    let effects = style.get_effects();
    match code {
        0 => Style::new(),
        1 => style.effects(effects | Effects::BOLD),
        2 => style.effects(effects | Effects::DIMMED),
        3 => style.effects(effects | Effects::ITALIC),
        4 => style.effects(effects | Effects::UNDERLINE),
        9 => style.effects(effects | Effects::STRIKETHROUGH),
        22 => style.effects(effects.remove(Effects::BOLD | Effects::DIMMED)),
        23 => style.effects(effects.remove(Effects::ITALIC)),
        24 => style.effects(effects.remove(Effects::UNDERLINE)),
        29 => style.effects(effects.remove(Effects::STRIKETHROUGH)),
        30..=37 => style.fg_color(palette_color(code - 30).map(Into::into)),
        39 => style.fg_color(None),
        90..=97 => style.fg_color(palette_color(code - 90 + 8).map(Into::into)),
        _ => style,
    }
}

/// Returns one of the sixteen colours; none for black and white, which may be the background.
fn palette_color(number: u8) -> Option<AnsiColor> {
    let colors = [
        None,
        Some(AnsiColor::Red),
        Some(AnsiColor::Green),
        Some(AnsiColor::Yellow),
        Some(AnsiColor::Blue),
        Some(AnsiColor::Magenta),
        Some(AnsiColor::Cyan),
        None,
        Some(AnsiColor::BrightBlack),
        Some(AnsiColor::BrightRed),
        Some(AnsiColor::BrightGreen),
        Some(AnsiColor::BrightYellow),
        Some(AnsiColor::BrightBlue),
        Some(AnsiColor::BrightMagenta),
        Some(AnsiColor::BrightCyan),
        None,
    ];
    colors.get(usize::from(number)).copied().flatten()
}

/// Returns the length of the complete sequence at the beginning of a text.
fn sequence_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    match bytes.get(1)? {
        b'[' => {
            let end = 2 + bytes[2..].iter().position(|it| !matches!(it, 0x20..=0x3f))?;
            matches!(bytes[end], 0x40..=0x7e).then_some(end + 1)
        }
        // Strings: titles, links, pictures; they end with a bell or `ESC \`.
        b']' | b'P' | b'X' | b'^' | b'_' => {
            let end = 2 + bytes[2..].iter().position(|it| matches!(it, 0x07 | 0x1b))?;
            match bytes[end..] {
                [0x07, ..] => Some(end + 1),
                [0x1b, b'\\', ..] => Some(end + 2),
                _ => None,
            }
        }
        0x20..=0x2f => {
            let end = 2 + bytes[2..].iter().position(|it| !matches!(it, 0x20..=0x2f))?;
            matches!(bytes[end], 0x30..=0x7e).then_some(end + 1)
        }
        0x30..=0x7e => Some(2),
        _ => None,
    }
}

/// Returns a line with the one-character forms of sequences in their usual form.
fn seven_bit(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for letter in line.chars() {
        match u32::from(letter) {
            code @ (0x90 | 0x98 | 0x9b..=0x9f) => {
                out.push('\u{1b}');
                out.extend(char::from_u32(code - 0x40));
            }
            _ => out.push(letter),
        }
    }
    out
}

fn is_c1(letter: char) -> bool {
    matches!(letter, '\u{80}'..='\u{9f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Vec<(String, Style)>> {
        let lines = colored_lines(text, Style::new());
        let piece = |it: &Span| (it.text().to_owned(), it.style());
        lines.iter().map(|line| line.iter().map(piece).collect()).collect()
    }

    #[test]
    fn colours_last_until_they_are_changed() {
        let red: Style = AnsiColor::Red.on_default();
        let plain = Style::new();
        let bold = |text: &str| (text.to_owned(), red.bold());
        assert_eq!(
            lines("a\u{1b}[31mb\n\u{1b}[1mc\u{1b}[0md\u{1b}[38;5;9me\u{1b}[38;2;1;2;3;4mf"),
            [
                vec![("a".to_owned(), plain), ("b".to_owned(), red)],
                vec![
                    bold("c"),
                    ("d".to_owned(), plain),
                    ("e".to_owned(), AnsiColor::BrightRed.on_default()),
                    ("f".to_owned(), Style::new().underline()),
                ],
            ]
        );
    }

    #[test]
    fn nothing_but_text_is_left() {
        let cases = [
            ("\u{1b}[32mok\u{1b}[39m\u{1b}[K", "ok"),
            ("\u{9b}31mred\u{9b}0m", "red"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "alink"),
            ("\u{1b}(B\u{1b}7\u{1b}[?25l\u{1b}[2J\u{1b}[10;20Ha", "a"),
            ("10%\r50%\r100%\r\nnext", "100%\nnext"),
            ("b\u{8}bold", "bold"),
            ("\u{1b}[8mhidden", "hidden"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_colors(text), expected, "{text:?}");
        }
    }

    #[test]
    fn an_incomplete_sequence_hides_nothing() {
        for text in ["a\u{1b}]0;secret\nb", "a\u{1b}[31", "a\u{1b}", "\u{1b}Pq\u{1b}[0m"] {
            assert!(without_colors(text).contains('\u{1b}'), "{text:?}");
        }
        assert_eq!(without_colors("a\u{1b}]0;secret\nb"), "a\u{1b}]0;secret\nb");
    }
}
