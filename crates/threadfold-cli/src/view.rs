//! Draws a conversation state in the terminal.
//!
//! All output consists of [`text::Span`]s, and a span is escaped when it is created.

mod ansi;
mod block;
mod call;
mod content;
mod conversation;
mod folded;
mod live;
mod markdown;
mod markup;
mod notice;
mod numbers;
mod page;
mod pager;
mod palette;
mod path;
mod session;
mod subagent;
mod table;
mod text;
mod tool;
mod uncalled;

pub(crate) use call::call_summary;
pub(crate) use content::{content_text, output_text, plain};
pub(crate) use live::LiveView;
pub(crate) use notice::command_text;
pub(crate) use numbers::{ago, count, number, size};
pub(crate) use page::Page;
pub(crate) use pager::Pager;
pub(crate) use session::{ViewOptions, draw};
pub(crate) use table::{Align, Column, draw_table_with_lines};
pub(crate) use text::{Span, cut, cut_front};
