//! Reads a session's own log.

use threadfold_fold::StoredRecord;
use threadfold_store::Limit;

use super::Session;
use crate::error::EngineError;

impl Session {
    /// Passes on every record of the log, from its beginning.
    pub(crate) async fn read_back(
        // Not shared, so that a future that reads back is `Send`.
        &mut self,
        mut each: impl FnMut(&StoredRecord),
    ) -> Result<(), EngineError> {
        let mut after = 0;
        loop {
            let records = self.store.read(&self.id, after, Limit::default()).await?;
            let Some(last) = records.last() else { return Ok(()) };
            after = last.seq;
            records.iter().for_each(&mut each);
        }
    }
}
