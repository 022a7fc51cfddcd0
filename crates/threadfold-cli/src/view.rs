//! Draws a conversation state in the terminal.
//!
//! All output consists of [`text::Span`]s, and a span is escaped when it is created.

mod ansi;
mod block;
mod conversation;
mod folded;
mod live;
mod markdown;
mod markup;
mod notice;
mod page;
mod pager;
mod palette;
mod session;
mod subagent;
mod table;
mod text;
mod tool;
mod uncalled;

use threadfold_export::{call, content, numbers, path};

pub(crate) use live::LiveView;
pub(crate) use notice::command_text;
pub(crate) use page::Page;
pub(crate) use pager::Pager;
pub(crate) use session::{ViewOptions, draw};
pub(crate) use table::{Align, Column, draw_table_with_lines};
pub(crate) use text::{Span, cut, cut_front};
pub(crate) use threadfold_export::numbers::{ago, count, number, size};
