//! Tables that fit a width.

use std::io::{self, Write};

use super::page::Page;
use super::palette::{BOLD, DIM};
use super::text::{Span, width_of, wrap};

/// What stands between two columns.
const BETWEEN: usize = 2;
/// A column is not made narrower than this to make room for others.
const LEAST: usize = 8;

/// A column of a table.
pub(crate) struct Column {
    pub(crate) title: Span,
    pub(crate) align: Align,
}

/// Where a cell's text stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Draws a table; cells of columns that had to be made narrower go on below.
pub(crate) fn draw_table<W: Write>(
    page: &mut Page<W>,
    columns: &[Column],
    rows: &[Vec<Vec<Span>>],
) -> io::Result<()> {
    let mut widths: Vec<usize> = columns.iter().map(|it| it.title.width()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(width_of(cell));
        }
    }
    fit(&mut widths, page.width());
    let titles = columns.iter().map(|it| vec![Span::new(it.title.text(), BOLD)]);
    draw_row(page, columns, &widths, &titles.collect::<Vec<_>>())?;
    let rules = widths.iter().map(|width| vec![Span::new(&"─".repeat(*width), DIM)]);
    draw_row(page, columns, &widths, &rules.collect::<Vec<_>>())?;
    rows.iter().try_for_each(|row| draw_row(page, columns, &widths, row))
}

/// Takes from the widest column until all fit.
fn fit(widths: &mut [usize], width: usize) {
    let between = BETWEEN * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + between > width {
        let Some(widest) = widths.iter_mut().max().filter(|it| **it > LEAST) else { return };
        *widest -= 1;
    }
}

fn draw_row<W: Write>(
    page: &mut Page<W>,
    columns: &[Column],
    widths: &[usize],
    row: &[Vec<Span>],
) -> io::Result<()> {
    let cells: Vec<Vec<Vec<Span>>> =
        row.iter().zip(widths).map(|(cell, width)| wrap(cell, *width)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    for at in 0..height {
        let mut line = Vec::new();
        for ((cell, width), column) in cells.iter().zip(widths).zip(columns) {
            let words = cell.get(at).cloned().unwrap_or_default();
            let room = Span::plain(&" ".repeat(width.saturating_sub(width_of(&words))));
            match column.align {
                Align::Left => line.extend(words.into_iter().chain([room])),
                Align::Right => line.extend([room].into_iter().chain(words)),
            }
            line.push(Span::plain(&" ".repeat(BETWEEN)));
        }
        page.line(&line)?;
    }
    Ok(())
}
