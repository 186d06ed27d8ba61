//! What becomes of a document: what the hub's API server said to a dry run, and what the hub's own rules say where that could not
//! see the documents before it.

use serde_json::Value;

use crate::decide::admit::Verdict;

/// What the API server answered to a dry run.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It would be stored so.
    Admitted {
        /// The object, with all that is filled in; none if it would be deleted.
        object: Option<Value>,
        /// What it warned of.
        warnings: Vec<String>,
    },
    /// It would not be stored.
    Refused(String),
    /// It could not be asked, for this reason: it lacks what comes before in the file.
    NotAsked(String),
}

/// What becomes of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Why it is refused, if it is.
    pub refusal: Option<String>,
    /// What it warns of.
    pub warnings: Vec<String>,
}

/// How a refusal by Tombolo's own webhook reads.
const OURS: &str = " is refused:";

/// Settles what becomes of a document. `own` is what our rules say with the documents before it applied, `alone` without them, and
/// `first` tells that there are none. The API server is right in all that does not depend on these.
pub fn settled(
    answer: &Answer,
    own: Option<&(Verdict, Option<String>)>,
    alone: &[String],
    first: bool,
) -> Settled {
    let refusal = own.and_then(|(_, refusal)| refusal.clone());
    let warnings = own.map(|(verdict, _)| verdict.warnings.clone()).unwrap_or_default();
    match answer {
        Answer::Admitted { .. } if refusal.is_some() && !first => Settled {
            refusal: refusal.map(|why| format!("with what comes before it: {why}")),
            ..Settled::default()
        },
        Answer::Admitted { warnings: said, .. } if first => Settled { refusal: None, warnings: said.clone() },
        Answer::Admitted { warnings: said, .. } => {
            let mut all: Vec<_> = said.iter().filter(|said| !alone.contains(said)).cloned().collect();
            all.extend(
                warnings.into_iter().filter(|warning| !said.contains(warning) || alone.contains(warning)),
            );
            all.dedup();
            Settled { refusal: None, warnings: all }
        }
        // What comes before it in the file may mend what the hub objects to.
        Answer::Refused(why) if !first && why.contains(OURS) && own.is_some() && refusal.is_none() => {
            let mut all = vec![format!(
                "as the hub is now it refuses this, with what comes before it, it does not: {why}"
            )];
            all.extend(warnings);
            Settled { refusal: None, warnings: all }
        }
        Answer::Refused(why) => Settled { refusal: Some(why.clone()), ..Settled::default() },
        Answer::NotAsked(why) => {
            let mut all = vec![format!("the hub's API server was not asked: {why}")];
            all.extend(warnings);
            Settled { refusal, warnings: all }
        }
    }
}
