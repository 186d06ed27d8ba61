//! What is computed when somebody asks, by whoever comes to know it: it costs nothing meanwhile and is never out of date.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

type Answer<T> = Box<dyn Fn() -> T + Send + Sync>;

/// What is computed when somebody asks.
pub struct Asked<T>(Arc<OnceLock<Answer<T>>>);

// === impl Asked ===

impl<T> Asked<T> {
    /// Says who answers from now on; a process has one.
    pub fn answer_by(&self, answer: impl Fn() -> T + Send + Sync + 'static) {
        // A second one would be of another part of the same process, which has no place here.
        let _ = self.0.set(Box::new(answer));
    }

    /// The answer; none while nobody knows.
    pub fn ask(&self) -> Option<T> {
        self.0.get().map(|answer| answer())
    }
}

impl<T> Default for Asked<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Asked<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Asked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("answered", &self.0.get().is_some()).finish()
    }
}
