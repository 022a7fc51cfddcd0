//! Draws tables that fit a width.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::page::Page;
use super::palette::{BOLD, DIM};
use super::text::{Span, columns, width_of, wrap};

/// The separator between columns.
const BETWEEN: usize = 2;
/// The minimum width to which a column is shrunk.
const LEAST: usize = 12;
/// The longest word that a column is kept wide enough for.
const LONGEST_WORD: usize = 20;

/// A column of a table.
pub(crate) struct Column {
    pub(crate) title: Span,
    pub(crate) align: Align,
}

/// The alignment of a cell's text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Draws a table; cells of shrunk columns wrap. A table with too many columns for the width is
/// drawn row by row, with a line per cell.
pub(crate) fn draw_table<W: Write>(
    page: &mut Page<W>,
    columns: &[Column],
    rows: &[Vec<Vec<Span>>],
) -> io::Result<()> {
    draw_table_with_lines(page, columns, rows, &BTreeMap::new())
}

/// Draws a table with lines of their own above some rows, by the row's index.
pub(crate) fn draw_table_with_lines<W: Write>(
    page: &mut Page<W>,
    columns: &[Column],
    rows: &[Vec<Vec<Span>>],
    above: &BTreeMap<usize, Span>,
) -> io::Result<()> {
    let mut widths: Vec<usize> = columns.iter().map(|it| it.title.width()).collect();
    let mut words: Vec<usize> = columns.iter().map(|it| longest_word(it.title.text())).collect();
    for row in rows {
        for ((width, word), cell) in widths.iter_mut().zip(&mut words).zip(row) {
            *width = (*width).max(width_of(cell));
            *word = cell.iter().map(|it| longest_word(it.text())).fold(*word, usize::max);
        }
    }
    let least: Vec<usize> = words.iter().map(|it| (*it).min(LONGEST_WORD)).collect();
    let is_fitting = fit(&mut widths, &least, page.width())
        || fit(&mut widths, &vec![LEAST; columns.len()], page.width());
    if !is_fitting {
        return draw_stacked(page, columns, rows, above);
    }
    let titles = columns.iter().map(|it| vec![Span::new(it.title.text(), BOLD)]);
    draw_row(page, columns, &widths, &titles.collect::<Vec<_>>())?;
    let rules = widths.iter().map(|width| vec![Span::new(&"─".repeat(*width), DIM)]);
    draw_row(page, columns, &widths, &rules.collect::<Vec<_>>())?;
    for (place, row) in rows.iter().enumerate() {
        if let Some(line) = above.get(&place) {
            page.wide(std::slice::from_ref(line))?;
        }
        draw_row(page, columns, &widths, row)?;
    }
    Ok(())
}

fn longest_word(text: &str) -> usize {
    text.split_whitespace().map(columns).max().unwrap_or(0)
}

/// Shrinks the widest column until all fit, none below its least width; returns whether they fit.
fn fit(widths: &mut [usize], least: &[usize], width: usize) -> bool {
    let between = BETWEEN * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + between > width {
        let shrinkable = widths.iter_mut().zip(least).filter(|(width, least)| **width > **least);
        let Some((widest, _)) = shrinkable.max_by_key(|(width, _)| **width) else { return false };
        *widest -= 1;
    }
    true
}

/// Draws each cell on a line of its own, after its column's title.
fn draw_stacked<W: Write>(
    page: &mut Page<W>,
    columns: &[Column],
    rows: &[Vec<Vec<Span>>],
    above: &BTreeMap<usize, Span>,
) -> io::Result<()> {
    for (place, row) in rows.iter().enumerate() {
        page.gap();
        if let Some(line) = above.get(&place) {
            page.wide(std::slice::from_ref(line))?;
        }
        for (column, cell) in columns.iter().zip(row).filter(|(_, cell)| width_of(cell) > 0) {
            let title = Span::new(&format!("{}: ", column.title.text()), BOLD);
            let line: Vec<Span> = [title].into_iter().chain(cell.iter().cloned()).collect();
            page.hanging(&line, 2)?;
        }
    }
    page.gap();
    Ok(())
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
