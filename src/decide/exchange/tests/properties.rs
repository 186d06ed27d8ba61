//! Whatever is seen of members, in whatever order: the same members give the same plans.

use proptest::prelude::*;

use super::*;

const MEMBERS: [&str; 3] = ["a", "b", "c"];
const GRADES: [Grade; 4] = [Grade::Fresh, Grade::Silent, Grade::Stale, Grade::Lost];
const KINDS: [Part; 2] = [Part::Exports, Part::Imports];

/// Something that happens. What is not believed is none of it: there the last good one stays, which a hub that starts anew never saw.
#[derive(Clone, Debug)]
enum Event {
    Cluster {
        member: usize,
        leaving: bool,
    },
    Grade {
        member: usize,
        grade: usize,
    },
    Kind {
        member: usize,
        part: usize,
        there: bool,
    },
    Namespace {
        member: usize,
        there: bool,
    },
    Export {
        member: usize,
        age: u32,
        ports: usize,
    },
    /// The agent has not said yet what is exported, or says that it is nothing.
    NoService {
        member: usize,
        age: u32,
    },
    NoExport(usize),
    Source {
        member: usize,
        address: u8,
    },
    NoSource(usize),
    UsersImport(usize),
    NoImport(usize),
    NoSlice {
        member: usize,
        number: usize,
    },
    Template {
        import: bool,
        ports: usize,
        placed: Option<Vec<usize>>,
    },
    NoTemplate {
        import: bool,
    },
    /// What is to be done in a member is done.
    Work(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let member = || 0..3usize;
    let there = || prop::bool::weighted(0.7);
    let placed = prop::option::of(prop::collection::vec(member(), 0..3));
    prop_oneof![
        1 => (member(), prop::bool::weighted(0.3)).prop_map(|(member, leaving)| Event::Cluster { member, leaving }),
        2 => (member(), 0..4usize).prop_map(|(member, grade)| Event::Grade { member, grade }),
        1 => (member(), 0..2usize, there()).prop_map(|(member, part, there)| Event::Kind { member, part, there }),
        1 => (member(), there()).prop_map(|(member, there)| Event::Namespace { member, there }),
        5 => (member(), 1..4u32, 0..4usize).prop_map(|(member, age, ports)| Event::Export { member, age, ports }),
        1 => (member(), 1..4u32).prop_map(|(member, age)| Event::NoService { member, age }),
        2 => member().prop_map(Event::NoExport),
        2 => (member(), 1..9u8).prop_map(|(member, address)| Event::Source { member, address }),
        1 => member().prop_map(Event::NoSource),
        1 => member().prop_map(Event::UsersImport),
        1 => member().prop_map(Event::NoImport),
        1 => (member(), 0..3usize).prop_map(|(member, number)| Event::NoSlice { member, number }),
        2 => (any::<bool>(), 0..4usize, placed).prop_map(|(import, ports, placed)| Event::Template { import, ports, placed }),
        1 => any::<bool>().prop_map(|import| Event::NoTemplate { import }),
        9 => member().prop_map(Event::Work),
    ]
}

/// Ports of a Service: alike, more, in conflict, and renamed.
fn some_ports(ports: usize) -> Vec<(&'static str, u16)> {
    match ports {
        0 => vec![("http", 80)],
        1 => vec![("http", 80), ("more", 81)],
        2 => vec![("http", 8080)],
        _ => vec![("web", 80)],
    }
}

fn import(ports: usize) -> Value {
    let ports = some_ports(ports)
        .into_iter()
        .map(|(name, port)| json!({ "name": name, "port": port, "protocol": "TCP" }));
    json!({ "type": "ClusterSetIP", "ports": ports.collect::<Vec<_>>() })
}

fn kind(import: bool) -> &'static str {
    if import { "ServiceImport" } else { "ServiceExport" }
}

/// A step by which a hub that starts anew learns of something.
type Step = Box<dyn FnOnce(&mut Fleet)>;

impl Fleet {
    fn happens(&mut self, event: &Event) {
        match event {
            Event::Cluster { member, leaving } => {
                let gone = leaving.then_some("2026-01-01T00:00:00Z");
                self.join(MEMBERS[*member], json!({ "metadata": { "deletionTimestamp": gone } }));
            }
            Event::Grade { member, grade } => {
                let mut grades = self.exchange.grades.clone();
                grades.insert(cluster(MEMBERS[*member]), GRADES[*grade]);
                self.exchange.set_grades(grades);
            }
            Event::Kind { member, part, there } => {
                self.exchange.see_kind(&cluster(MEMBERS[*member]), KINDS[*part], *there);
            }
            Event::Namespace { member, there } => {
                self.exchange.see_namespace(&cluster(MEMBERS[*member]), "shop", *there);
            }
            Event::Export { member, age, ports: number } => {
                self.export(MEMBERS[*member], *age, ports(&some_ports(*number)));
            }
            Event::NoService { member, age } => self.export_record(MEMBERS[*member], *age, None),
            Event::NoExport(member) => self.unexport(MEMBERS[*member]),
            Event::Source { member, address } => {
                let port = json!({ "name": "http", "port": 8080, "protocol": "TCP" });
                self.source(MEMBERS[*member], &format!("10.7.7.{address}"), vec![port]);
            }
            Event::NoSource(member) => {
                self.slices.remove(&(MEMBERS[*member].to_owned(), "serve-source-a".to_owned()));
                self.exchange.lose_source(&cluster(MEMBERS[*member]), &serve(), "serve-source-a");
            }
            Event::UsersImport(member) => {
                let uid = self.uid();
                let object = json!({
                    "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", "spec": import(0),
                    "metadata": { "namespace": "shop", "name": "serve", "uid": uid },
                });
                self.imports.insert((MEMBERS[*member].to_owned(), "serve".to_owned()), object.clone());
                self.see_import(MEMBERS[*member], &object);
            }
            Event::NoImport(member) => {
                self.imports.remove(&(MEMBERS[*member].to_owned(), "serve".to_owned()));
                self.exchange.see_import(&cluster(MEMBERS[*member]), &serve(), None);
            }
            Event::NoSlice { member, number } => {
                let mut ours = self
                    .slices
                    .iter()
                    .filter(|((at, _), slice)| at == MEMBERS[*member] && source_key(slice).is_none());
                if let Some(at) = ours.nth(*number).map(|(at, _)| at.clone()) {
                    self.slices.remove(&at);
                    self.exchange.lose_imported(&cluster(MEMBERS[*member]), &serve(), &at.1);
                }
            }
            Event::Template { import: true, ports, placed } => {
                self.is_placed(true, import(*ports), placed.as_deref());
            }
            Event::Template { import: false, placed, .. } => {
                self.is_placed(false, json!({}), placed.as_deref());
            }
            Event::NoTemplate { import } => self.no_template(kind(*import), "serve"),
            Event::Work(member) => {
                let plan = self.plan(MEMBERS[*member]);
                self.carry_out(MEMBERS[*member], plan);
            }
        }
    }

    fn is_placed(&mut self, import: bool, spec: Value, placed: Option<&[usize]>) {
        let placed: Option<Vec<_>> =
            placed.map(|placed| placed.iter().map(|member| MEMBERS[*member]).collect());
        self.template(kind(import), "serve", spec, placed.as_deref());
    }

    fn plans(&self) -> Vec<Plan> {
        MEMBERS.iter().map(|member| self.plan(member)).collect()
    }

    /// All that there is to learn of members, piece by piece.
    fn pieces(&self) -> Vec<Step> {
        let mut pieces: Vec<Step> = Vec::new();
        for ((at, _), object) in self.exports.clone() {
            pieces.push(Box::new(move |fleet| fleet.see_export(&at, &object)));
        }
        for ((at, _), object) in self.imports.clone() {
            pieces.push(Box::new(move |fleet| fleet.see_import(&at, &object)));
        }
        for ((at, _), slice) in self.slices.clone() {
            pieces.push(Box::new(move |fleet| fleet.see_slice(&at, slice)));
        }
        for (name, member) in &self.exchange.members {
            for namespace in member.namespaces.clone() {
                let name = name.clone();
                pieces
                    .push(Box::new(move |fleet| drop(fleet.exchange.see_namespace(&name, &namespace, true))));
            }
            for part in member.lacks.clone() {
                let name = name.clone();
                pieces.push(Box::new(move |fleet| drop(fleet.exchange.see_kind(&name, part, false))));
            }
        }
        let grades = self.exchange.grades.clone();
        pieces.push(Box::new(move |fleet| drop(fleet.exchange.set_grades(grades))));
        pieces
    }

    /// The hub starts anew, and learns of the members as they are now in some order.
    fn starts_anew(&mut self, order: u64) {
        let mut pieces: Vec<_> = self.pieces().into_iter().enumerate().collect();
        pieces.sort_by_key(|(number, _)| (*number as u64 + 1).wrapping_mul(order | 1));
        let before = std::mem::replace(&mut self.exchange, Exchange::new("hub".into(), rules()));
        for (_, learn) in pieces {
            learn(self);
        }
        for member in MEMBERS {
            self.read(member);
        }
        // That was learnt of the hub, by live looks, and not of members.
        self.exchange.withdrawn = before.withdrawn;
        self.exchange.released = before.released;
    }
}

proptest! {
    #[test]
    fn the_same_members_give_the_same_plans_however_it_was_learnt_of_them(
        events in prop::collection::vec(event(), 0..40), order in any::<u64>(),
    ) {
        let mut fleet = Fleet::of(&MEMBERS);
        for event in &events {
            fleet.happens(event);
        }
        let grown = fleet.plans();
        fleet.starts_anew(order);
        prop_assert_eq!(grown, fleet.plans());
    }
}
