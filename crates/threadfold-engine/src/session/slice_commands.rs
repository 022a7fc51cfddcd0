//! Input to a session's slices. Each item is a record like those from outside.

use threadfold_core::{Json, SessionEvent};
use threadfold_fold::{Item, Query, Record, RecordKind, SliceCommand, Snapshot, Step};

use super::Session;
use crate::error::EngineError;

impl Session {
    /// Dispatches an item to every slice that accepts its type.
    pub async fn dispatch<T: Item>(&mut self, item: &T) -> Result<(), EngineError> {
        self.append_command(SliceCommand::dispatch(T::TYPE, Json::of(item))).await
    }

    /// Emits an event in Threadfold's own format.
    pub async fn emit(
        &mut self,
        event: &SessionEvent,
    ) -> Result<Vec<std::sync::Arc<Step>>, EngineError> {
        self.emit_all(std::slice::from_ref(event)).await
    }

    /// Emits several events atomically: all of them are stored, or none.
    pub async fn emit_all(
        &mut self,
        events: &[SessionEvent],
    ) -> Result<Vec<std::sync::Arc<Step>>, EngineError> {
        let record = |event| own_record(RecordKind::Event, &Json::of(event));
        self.accept(events.iter().map(record).collect()).await
    }

    /// Replaces all items of the slice of their type.
    pub async fn seed<T: Item>(&mut self, items: &[T]) -> Result<(), EngineError> {
        let slice = self.fold.slices().name_of::<T>()?.to_owned();
        self.append_command(SliceCommand::seed(&slice, items.iter().map(Json::of).collect())).await
    }

    /// Removes all items of the slice of this type.
    pub async fn clear<T: Item>(&mut self) -> Result<(), EngineError> {
        let slice = self.fold.slices().name_of::<T>()?.to_owned();
        self.append_command(SliceCommand::clear(&slice)).await
    }

    /// Restores the session to a snapshot: every slice with the policy
    /// [`State`](threadfold_fold::RestorePolicy::State) is reset to it, all or none.
    ///
    /// The log is append-only: nothing in it is undone.
    pub async fn restore(&mut self, snapshot: &Snapshot) -> Result<(), EngineError> {
        self.fold.rolled_back(snapshot)?;
        self.append_command(SliceCommand::restore(Json::of(snapshot))).await
    }

    /// Queries the items of a type.
    pub fn query<T: Item>(&self) -> Result<Query<'_, T>, EngineError> {
        Ok(Query::of(self.fold.items()?))
    }

    async fn append_command(&mut self, word: SliceCommand) -> Result<(), EngineError> {
        self.accept(vec![own_record(RecordKind::Slice, &Json::of(&word))]).await?;
        Ok(())
    }
}

/// Returns a record of the session itself, without a source.
fn own_record(kind: RecordKind, json: &Json) -> Record {
    Record::new(kind, 0, 0, json.as_str().to_owned())
}
