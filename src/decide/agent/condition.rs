//! A condition that an agent writes: only when it says something new, and with the time at which its status changed.

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
    pub reason: &'static str,
    /// Why, in words.
    pub message: String,
}

// === impl Verdict ===

impl Verdict {
    /// The condition to be written, if the ones that are there do not say so already.
    pub fn written(&self, there: &[Condition], now: Timestamp) -> Option<Condition> {
        let status = if self.met { "True" } else { "False" };
        let message: String = self.message.chars().take(LONGEST / 4).collect();
        let old = there.iter().find(|old| old.type_ == self.condition);
        if old.is_some_and(|old| old.status == status && old.reason == self.reason && old.message == message)
        {
            return None;
        }
        let since = old.filter(|old| old.status == status).map(|old| old.last_transition_time.clone());
        Some(Condition {
            type_: self.condition.to_owned(),
            status: status.to_owned(),
            reason: self.reason.to_owned(),
            message,
            last_transition_time: since.unwrap_or(Time(now)),
            observed_generation: None,
        })
    }
}
