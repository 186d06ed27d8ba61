//! UIDs of what was deleted lately, by us or by others: a watch may still show it, and so may the answer to a write of ours that came
//! before the deletion and is read after it.

use std::collections::{BTreeSet, VecDeque};

/// As many are remembered: more than die while a request is answered.
const REMEMBERED: usize = 4096;

/// UIDs of what was deleted lately.
#[derive(Debug, Default)]
pub struct Dead {
    uids: BTreeSet<Box<str>>,
    order: VecDeque<Box<str>>,
}

// === impl Dead ===

impl Dead {
    /// Takes note of a deletion.
    pub fn insert(&mut self, uid: &str) {
        if !self.uids.insert(uid.into()) {
            return;
        }
        self.order.push_back(uid.into());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }

    /// Whether it was deleted.
    pub fn has(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }

    /// Forgets all: whatever is listed from now on lives.
    pub fn clear(&mut self) {
        self.uids.clear();
        self.order.clear();
    }
}
