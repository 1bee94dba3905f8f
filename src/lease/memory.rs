//! A store that ends with the process.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::error::LeaseError;
use super::record::{LeaseId, LeaseRecord};
use super::store::{Filter, Leases, Store, Work};

/// Leases in memory. A put cannot fail, so a transaction that judges first and puts last has nothing to undo.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<BTreeMap<LeaseId, LeaseRecord>>);

impl Store for Memory {
    fn change(&self, work: &mut Work<'_>) -> Result<(), LeaseError> {
        work(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn read(&self, work: &mut Work<'_>) -> Result<(), LeaseError> {
        self.change(work)
    }
}

impl Leases for BTreeMap<LeaseId, LeaseRecord> {
    fn get(&self, id: LeaseId) -> Result<Option<LeaseRecord>, LeaseError> {
        Ok(self.get(&id).cloned())
    }

    fn find(&self, filter: &Filter) -> Result<Vec<LeaseRecord>, LeaseError> {
        Ok(self.values().filter(|record| filter.matches(record)).cloned().collect())
    }

    fn put(&mut self, record: &LeaseRecord) -> Result<(), LeaseError> {
        let _ = self.insert(record.id, record.clone());
        Ok(())
    }

    fn remove(&mut self, id: LeaseId) -> Result<(), LeaseError> {
        let _ = self.remove(&id);
        Ok(())
    }
}
