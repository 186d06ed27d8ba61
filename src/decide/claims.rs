//! Which Cluster an API server is a member by: one, however many lead to it.
//!
//! [`Claims::claim`] is the only question. Whoever was granted an API server keeps it until another is asked for in its name, or until it is
//! [released](Claims::release); nothing may be read or written by a Cluster before.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{ids::ClusterName, view::View};

/// The API servers that Clusters have, by the UID of the kube-system there.
#[derive(Debug, Default)]
pub struct Claims {
    held: BTreeMap<ClusterName, Arc<str>>,
}

/// What becomes of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The API server is this Cluster's.
    Granted,
    /// It is another's.
    Refused(ClusterName),
    /// It is another's, though its own mark names this one: the other has to look again, then this one gets it.
    Ousted(ClusterName),
    /// An older Cluster may be the same; that is not known yet.
    Open(ClusterName),
}

// === impl Claims ===

impl Claims {
    /// Claims an API server for a Cluster. `marked` is the Cluster that a mark of this hub names there, `unknown` are the Clusters of
    /// which it is not known where they lead, nor that they lead nowhere.
    ///
    /// The mark goes before all else, then whoever has it, then the oldest Cluster: so a restart changes nothing.
    pub fn claim(
        &mut self,
        view: &View,
        name: &ClusterName,
        server: &Arc<str>,
        marked: Option<&str>,
        unknown: &BTreeSet<ClusterName>,
    ) -> Claimed {
        if self.held.get(name).is_some_and(|held| held != server) {
            self.held.remove(name);
        }
        // A mark that names no Cluster is what is left of one that is gone.
        let marked = marked.and_then(|marked| view.members().get_key_value(marked)).map(|(name, _)| name);
        if let Some(other) = marked.filter(|marked| *marked != name) {
            self.held.remove(name);
            return Claimed::Refused(other.clone());
        }
        let mut others = self.held.iter().filter(|(other, held)| *held == server && *other != name);
        if let Some(other) = others.next().map(|(other, _)| other.clone()) {
            if marked.is_none() {
                return Claimed::Refused(other);
            }
            self.held.remove(&other);
            return Claimed::Ousted(other);
        }
        // Whoever was joined says which API server is its own.
        let may_be_it = |other: &ClusterName| view.id_of(other).is_none_or(|id| *id == **server);
        if marked.is_none()
            && !self.held.contains_key(name)
            && let Some(older) = unknown.iter().find(|other| may_be_it(other) && view.is_older(other, name))
        {
            return Claimed::Open(older.clone());
        }
        self.held.insert(name.clone(), server.clone());
        Claimed::Granted
    }

    /// Takes note that a Cluster is gone.
    pub fn release(&mut self, name: &ClusterName) {
        self.held.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Clusters, each older than the next.
    fn view(clusters: &[&str]) -> View {
        let mut view = View::new("tombolo-system");
        for (second, name) in clusters.iter().enumerate() {
            let made = format!("2026-01-01T00:00:{second:02}Z");
            let cluster = json!({
                "metadata": { "name": name, "uid": name, "creationTimestamp": made },
                "spec": { "syncMode": "Push" },
            });
            view.see_cluster(serde_json::from_value(cluster).unwrap());
        }
        view
    }

    fn name(name: &str) -> ClusterName {
        name.parse().unwrap()
    }

    /// Asks for one and the same API server.
    fn asks(claims: &mut Claims, view: &View, who: &str, marked: Option<&str>, unknown: &[&str]) -> Claimed {
        let unknown = unknown.iter().map(|other| name(other)).collect();
        claims.claim(view, &name(who), &"one".into(), marked, &unknown)
    }

    #[test]
    fn a_second_cluster_for_an_api_server_is_refused_whatever_its_name() {
        let (view, mut claims) = (view(&["member1", "aaa", "zzz"]), Claims::default());
        assert_eq!(asks(&mut claims, &view, "member1", None, &[]), Claimed::Granted);
        for other in ["aaa", "zzz"] {
            assert_eq!(asks(&mut claims, &view, other, None, &[]), Claimed::Refused(name("member1")));
        }
        assert_eq!(asks(&mut claims, &view, "member1", None, &[]), Claimed::Granted, "a new session");
        claims.release(&name("member1"));
        assert_eq!(asks(&mut claims, &view, "aaa", None, &[]), Claimed::Granted);
    }

    #[test]
    fn after_a_restart_the_marks_cluster_has_it_whoever_is_first_or_older() {
        let (view, mut claims) = (view(&["aaa", "member1"]), Claims::default());
        let marked = Some("member1");
        assert_eq!(asks(&mut claims, &view, "aaa", marked, &["member1"]), Claimed::Refused(name("member1")));
        assert_eq!(asks(&mut claims, &view, "member1", marked, &["aaa"]), Claimed::Granted);
    }

    #[test]
    fn after_a_restart_a_cluster_without_a_mark_waits_for_older_ones() {
        let (view, mut claims) = (view(&["member1", "aaa"]), Claims::default());
        assert_eq!(
            asks(&mut claims, &view, "aaa", None, &["aaa", "member1"]),
            Claimed::Open(name("member1"))
        );
        assert_eq!(asks(&mut claims, &view, "member1", None, &["aaa", "member1"]), Claimed::Granted);
        assert_eq!(asks(&mut claims, &view, "aaa", None, &["aaa"]), Claimed::Refused(name("member1")));
    }

    #[test]
    fn a_cluster_that_was_joined_since_ousts_one_that_was_not() {
        let (view, mut claims) = (view(&["raw", "member1"]), Claims::default());
        assert_eq!(asks(&mut claims, &view, "raw", None, &[]), Claimed::Granted);
        let marked = Some("member1");
        assert_eq!(asks(&mut claims, &view, "member1", marked, &[]), Claimed::Ousted(name("raw")));
        assert_eq!(asks(&mut claims, &view, "raw", marked, &[]), Claimed::Refused(name("member1")));
        assert_eq!(asks(&mut claims, &view, "member1", marked, &[]), Claimed::Granted);
    }

    #[test]
    fn a_mark_that_names_no_cluster_keeps_nobody_out_and_who_leads_elsewhere_holds_nothing() {
        let (view, mut claims) = (view(&["new", "other"]), Claims::default());
        assert_eq!(asks(&mut claims, &view, "new", Some("gone"), &[]), Claimed::Granted);
        let elsewhere = claims.claim(&view, &name("new"), &"two".into(), None, &BTreeSet::new());
        assert_eq!(elsewhere, Claimed::Granted);
        assert_eq!(asks(&mut claims, &view, "other", None, &[]), Claimed::Granted);
    }
}
