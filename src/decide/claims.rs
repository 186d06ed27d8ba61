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

/// What is known of Clusters that have no API server.
#[derive(Clone, Debug, Default)]
pub struct Unclaimed {
    /// Those that were not asked yet.
    pub unasked: BTreeSet<ClusterName>,
    /// Those that were asked, and lead to nothing that could be theirs: to the hub, to another's member.
    pub elsewhere: BTreeSet<ClusterName>,
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
    /// Another Cluster may be the same, and goes before this one; that is not known yet.
    Open(ClusterName),
}

// === impl Claims ===

impl Claims {
    /// Claims an API server for a Cluster. `marked` is the Cluster that a mark of this hub names there.
    ///
    /// The mark goes before all else, then whoever has it, then whoever has it on record, then the oldest Cluster: so a restart changes
    /// nothing.
    pub fn claim(
        &mut self,
        view: &View,
        name: &ClusterName,
        server: &Arc<str>,
        marked: Option<&str>,
        known: &Unclaimed,
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
        let others = self.held.iter().filter(|(other, held)| *held == server && *other != name);
        // What such a one had before is not its own any more.
        let mut others = others.filter(|(other, _)| !known.elsewhere.contains(*other));
        if let Some(other) = others.next().map(|(other, _)| other.clone()) {
            if marked.is_none() {
                return Claimed::Refused(other);
            }
            self.held.remove(&other);
            return Claimed::Ousted(other);
        }
        if marked.is_none()
            && !self.held.contains_key(name)
            && let Some(other) =
                view.members().keys().find(|other| self.goes_before(view, other, name, server, known))
        {
            return Claimed::Open(other.clone());
        }
        self.held.insert(name.clone(), server.clone());
        Claimed::Granted
    }

    /// Whether another Cluster, of which nobody knows where it leads now, may lead to an API server and have copies there.
    fn goes_before(
        &self,
        view: &View,
        other: &ClusterName,
        name: &ClusterName,
        server: &str,
        known: &Unclaimed,
    ) -> bool {
        if other == name || self.held.contains_key(other) || known.elsewhere.contains(other) {
            return false;
        }
        let on_record = view.server_of(name) == Some(server);
        match view.server_of(other) {
            Some(theirs) => theirs == server && (!on_record || view.is_older(other, name)),
            // What was never used has no copies. Whoever was joined says which API server is its own.
            None => {
                !on_record
                    && view.is_older(other, name)
                    && view.id_of(other).is_none_or(|id| id == server)
                    && (known.unasked.contains(other) || view.was_given_any(other))
            }
        }
    }

    /// The API server that a Cluster has.
    pub fn held_by(&self, name: &ClusterName) -> Option<&Arc<str>> {
        self.held.get(name)
    }

    /// Takes note that a Cluster is gone.
    pub fn release(&mut self, name: &ClusterName) {
        self.held.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use serde_json::json;

    use super::*;

    /// Clusters, each older than the next.
    fn view(clusters: &[&str]) -> View {
        let mut view = View::new("tombolo-system");
        for (second, name) in clusters.iter().enumerate() {
            see(&mut view, name, second, &json!({}));
        }
        view
    }

    fn see(view: &mut View, name: &str, second: usize, annotations: &serde_json::Value) {
        let made = format!("2026-01-01T00:00:{second:02}Z");
        let cluster = json!({
            "metadata": { "name": name, "uid": name, "creationTimestamp": made, "annotations": annotations },
            "spec": { "syncMode": "Push" },
        });
        view.see_cluster(serde_json::from_value(cluster).unwrap());
    }

    fn name(name: &str) -> ClusterName {
        name.parse().unwrap()
    }

    /// Asks for one and the same API server.
    fn asks(claims: &mut Claims, view: &View, who: &str, marked: Option<&str>, unknown: &[&str]) -> Claimed {
        let unasked = unknown.iter().map(|other| name(other)).collect();
        let known = Unclaimed { unasked, ..Unclaimed::default() };
        claims.claim(view, &name(who), &"one".into(), marked, &known)
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
        let elsewhere = claims.claim(&view, &name("new"), &"two".into(), None, &Unclaimed::default());
        assert_eq!(elsewhere, Claimed::Granted);
        assert_eq!(asks(&mut claims, &view, "other", None, &[]), Claimed::Granted);
    }

    #[test]
    fn after_a_restart_a_cluster_that_does_not_answer_keeps_out_only_who_may_be_the_same() {
        let (mut view, mut claims) = (view(&["dead", "new"]), Claims::default());
        assert_eq!(asks(&mut claims, &view, "new", None, &[]), Claimed::Granted, "it never was of any use");
        claims.release(&name("new"));
        see(&mut view, "dead", 0, &json!({ "tombolo.dev/kinds": "ConfigMap" }));
        let open = Claimed::Open(name("dead"));
        assert_eq!(asks(&mut claims, &view, "new", None, &[]), open, "an older release recorded no more");
        see(
            &mut view,
            "dead",
            0,
            &json!({ "tombolo.dev/kinds": "ConfigMap", "tombolo.dev/api-server": "two" }),
        );
        assert_eq!(asks(&mut claims, &view, "new", None, &[]), Claimed::Granted, "it led elsewhere");
        claims.release(&name("new"));
        see(&mut view, "dead", 0, &json!({ "tombolo.dev/api-server": "one" }));
        assert_eq!(asks(&mut claims, &view, "new", None, &[]), open);
        let elsewhere = Unclaimed { elsewhere: [name("dead")].into(), ..Unclaimed::default() };
        let asked = claims.claim(&view, &name("new"), &"one".into(), None, &elsewhere);
        assert_eq!(asked, Claimed::Granted, "it is the hub itself by now");
        let mut claims = Claims::default();
        assert_eq!(asks(&mut claims, &view, "dead", None, &[]), Claimed::Granted);
        let asked = claims.claim(&view, &name("new"), &"one".into(), None, &elsewhere);
        assert_eq!(asked, Claimed::Granted, "it had that one before it became the hub itself");
    }

    #[test]
    fn who_has_an_api_server_on_record_goes_before_older_ones() {
        let (mut view, mut claims) = (view(&["older", "ours"]), Claims::default());
        see(&mut view, "ours", 1, &json!({ "tombolo.dev/api-server": "one" }));
        assert_eq!(asks(&mut claims, &view, "older", None, &[]), Claimed::Open(name("ours")));
        assert_eq!(asks(&mut claims, &view, "ours", None, &["older"]), Claimed::Granted);
        assert_eq!(asks(&mut claims, &view, "older", None, &[]), Claimed::Refused(name("ours")));
    }

    proptest! {
        #[test]
        fn no_restart_gives_an_api_server_to_a_cluster_beside_the_one_that_had_it(
            asked in vec((0..3usize, 0..2usize), 0..12), again in vec((0..3usize, any::<bool>()), 0..24),
        ) {
            const NAMES: [&str; 3] = ["a", "b", "c"];
            const SERVERS: [&str; 2] = ["one", "two"];
            let (mut view, mut claims, known) = (view(&NAMES), Claims::default(), Unclaimed::default());
            let (mut leads, mut had) = (BTreeMap::new(), BTreeMap::new());
            for (who, server) in asked {
                // Where a Cluster leads stays as it is.
                let server = *leads.entry(who).or_insert(server);
                let (who, server) = (NAMES[who], SERVERS[server]);
                if claims.claim(&view, &name(who), &server.into(), None, &known) == Claimed::Granted {
                    had.insert(server, who);
                    let at = NAMES.iter().position(|name| *name == who).unwrap();
                    see(&mut view, who, at, &json!({ "tombolo.dev/api-server": server }));
                }
            }
            let mut claims = Claims::default();
            for (who, asked) in again {
                let Some(server) = leads.get(&who).map(|server| SERVERS[*server]) else { continue };
                // Whoever does not answer asks for nothing.
                if asked && claims.claim(&view, &name(NAMES[who]), &server.into(), None, &known) == Claimed::Granted {
                    prop_assert_eq!(had.get(server), Some(&NAMES[who]), "{}", server);
                }
            }
        }
    }
}
