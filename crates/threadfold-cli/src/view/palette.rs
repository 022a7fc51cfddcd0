//! The styles of the view: effects and the terminal's own sixteen colours.

use anstyle::{AnsiColor, Effects, Style};

pub(crate) const PLAIN: Style = Style::new();
pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const ITALIC: Style = Style::new().italic();
pub(crate) const STRUCK: Style = Style::new().strikethrough();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const PERSON: Style = AnsiColor::Cyan.on_default().effects(Effects::BOLD);
pub(crate) const MODEL: Style = AnsiColor::Magenta.on_default().effects(Effects::BOLD);
pub(crate) const TOOL: Style = BOLD;
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const ODD: Style = AnsiColor::Yellow.on_default();
pub(crate) const CODE: Style = AnsiColor::Cyan.on_default();
pub(crate) const LINK: Style = AnsiColor::Blue.on_default().effects(Effects::UNDERLINE);

/// Combines two styles; colours of the inner one take precedence.
pub(crate) fn both(outer: Style, inner: Style) -> Style {
    Style::new()
        .fg_color(inner.get_fg_color().or(outer.get_fg_color()))
        .effects(outer.get_effects() | inner.get_effects())
}
