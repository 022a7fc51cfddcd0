//! Commands to a session's slices: dispatch, seed, clear, restore.

use serde::{Deserialize, Serialize};
use threadfold_core::Json;

use super::{Fold, Oddity, Step};
use crate::error::with_causes;
use crate::record::StoredRecord;
use crate::slice::Dispatch;
use crate::snapshot::Snapshot;

/// A command to a session's slices, as a record of its log.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceCommand {
    op: Op,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    item_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slice: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    items: Vec<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snapshot: Option<Json>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Op {
    /// Passes items to every slice that listens to their type.
    Dispatch,
    /// Replaces all items of a slice.
    Seed,
    /// Removes all items of a slice.
    Clear,
    /// Restores a snapshot: slices with the policy `State` are rolled back.
    Restore,
}

impl SliceCommand {
    fn new(op: Op) -> Self {
        Self { op, item_type: None, slice: None, items: Vec::new(), snapshot: None }
    }

    /// Passes an item to every slice that listens to its type.
    pub fn dispatch(item_type: &str, item: Json) -> Self {
        let item_type = Some(item_type.to_owned());
        Self { item_type, items: vec![item], ..Self::new(Op::Dispatch) }
    }

    /// Replaces all items of a slice.
    pub fn seed(slice: &str, items: Vec<Json>) -> Self {
        Self { slice: Some(slice.to_owned()), items, ..Self::new(Op::Seed) }
    }

    /// Removes all items of a slice.
    pub fn clear(slice: &str) -> Self {
        Self { slice: Some(slice.to_owned()), ..Self::new(Op::Clear) }
    }

    /// Restores the slices to a snapshot.
    ///
    /// The command contains the whole snapshot, so that replaying the log needs nothing else.
    pub fn restore(snapshot: Json) -> Self {
        Self { snapshot: Some(snapshot), ..Self::new(Op::Restore) }
    }
}

impl Fold {
    pub(super) fn push_slice(&mut self, record: &StoredRecord, step: &mut Step) {
        let command: SliceCommand = match serde_json::from_slice(&record.bytes) {
            Ok(command) => command,
            Err(error) => {
                return step.report_unreadable(format!("a slice command cannot be read: {error}"));
            }
        };
        let slice = command.slice.as_deref().unwrap_or_default();
        match command.op {
            Op::Dispatch => {
                let item_type = command.item_type.as_deref().unwrap_or_default();
                for item in &command.items {
                    match self.slices.apply_item(item_type, item) {
                        Dispatch::Accepted => {}
                        Dispatch::NoListener => {
                            step.oddities.push(Oddity::NoListener(item_type.to_owned()))
                        }
                        Dispatch::Unreadable(why) => step.report_unreadable(why),
                    }
                }
            }
            Op::Seed => {
                if let Err(error) = self.slices.seed(slice, &command.items) {
                    step.report_unreadable(with_causes(&error));
                }
            }
            Op::Clear => {
                if let Err(error) = self.slices.clear(slice) {
                    step.report_unreadable(with_causes(&error));
                }
            }
            Op::Restore => {
                let snapshot = command.snapshot.as_ref().map_or("null", Json::as_str);
                let restored =
                    Snapshot::from_json(snapshot).and_then(|snapshot| self.rolled_back(&snapshot));
                match restored {
                    Ok(fold) => {
                        *self = fold;
                        step.restored = true;
                    }
                    Err(error) => step.report_unreadable(error.to_string()),
                }
            }
        }
    }
}
