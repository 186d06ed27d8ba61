//! How much there is of something, and whether it is the same elsewhere.

use std::hash::{DefaultHasher, Hash, Hasher};

/// How many objects there are, and a number that is another if any of them is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub count: usize,
    /// The same for the same objects, in whatever order they came.
    pub checksum: u64,
}

// === impl Sum ===

impl Sum {
    /// Adds an object.
    pub fn add(&mut self, object: &impl Hash) {
        let mut hasher = DefaultHasher::new();
        object.hash(&mut hasher);
        self.count += 1;
        self.checksum ^= hasher.finish();
    }

    /// The sum of objects.
    pub fn of<H: Hash>(objects: impl IntoIterator<Item = H>) -> Self {
        let mut sum = Self::default();
        objects.into_iter().for_each(|object| sum.add(&object));
        sum
    }
}
