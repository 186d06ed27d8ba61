//! What a condition is to say: it is written only when it says something new, with the time at which its status changed.

use std::borrow::Cow;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

/// The longest message that an API server takes.
const LONGEST: usize = 32_768;

/// What a condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Which condition.
    pub condition: &'static str,
    /// Whether it is met.
    pub met: bool,
    /// Why, in one word.
    pub reason: Cow<'static, str>,
    /// Why, in words.
    pub message: String,
}

// === impl Verdict ===

impl Verdict {
    /// As a condition has it.
    fn status(&self) -> &'static str {
        if self.met { "True" } else { "False" }
    }

    fn message(&self) -> String {
        self.message.chars().take(LONGEST / 4).collect()
    }

    /// Whether one of these conditions says so already.
    pub fn is_among(&self, there: &[Condition]) -> bool {
        let message = self.message();
        let mut same = there.iter().filter(|there| there.type_ == self.condition);
        same.any(|there| {
            there.status == self.status() && there.reason == self.reason && there.message == message
        })
    }

    /// The condition that says so, since when it does if these conditions tell.
    pub fn dated(&self, there: &[Condition], generation: Option<i64>, now: Timestamp) -> Condition {
        let same = there.iter().find(|old| old.type_ == self.condition && old.status == self.status());
        Condition {
            type_: self.condition.to_owned(),
            status: self.status().to_owned(),
            reason: self.reason.to_string(),
            message: self.message(),
            last_transition_time: same.map_or(Time(now), |old| old.last_transition_time.clone()),
            observed_generation: generation,
        }
    }

    /// The condition to be written, if these do not say so already; of that generation, where it matters.
    pub fn written(&self, there: &[Condition], generation: Option<i64>, now: Timestamp) -> Option<Condition> {
        let old = there.iter().find(|old| old.type_ == self.condition);
        let current = old.is_some_and(|old| old.observed_generation >= generation);
        (!current || !self.is_among(there)).then(|| self.dated(there, generation, now))
    }
}
