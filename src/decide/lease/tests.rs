use proptest::prelude::*;

use super::*;

const MILLI: Duration = Duration::from_millis(1);

fn held_by(holder: &str) -> Record {
    Record { holder: holder.to_owned(), duration: DURATION, acquired: 1, renewed: 2, transitions: 3 }
}

#[test]
fn a_lease_is_anothers_until_it_was_not_seen_to_change_for_as_long_as_it_is_good_for() {
    let since = Duration::from_secs(100);
    let view = LeaseView { record: held_by("other"), since };
    assert_eq!(decide(Some(&view), "me", since), Step::Wait(DURATION));
    assert_eq!(decide(Some(&view), "me", since + DURATION - MILLI), Step::Wait(MILLI));
    assert_eq!(decide(Some(&view), "me", since + DURATION), Step::Acquire);
    let short = Record { duration: Duration::from_secs(2), ..held_by("other") };
    let view = LeaseView { record: short, since };
    assert_eq!(
        decide(Some(&view), "me", since + 2 * RETRY),
        Step::Acquire,
        "what the holder goes by counts, not our own setting"
    );
}

#[test]
fn what_is_free_is_taken_at_once_and_what_is_ours_is_renewed_however_late() {
    let view = |record| LeaseView { record, since: Duration::ZERO };
    assert_eq!(decide(None, "me", Duration::ZERO), Step::Acquire);
    let released = view(held_by("other").released(9));
    assert_eq!(decide(Some(&released), "me", Duration::ZERO), Step::Acquire);
    assert_eq!(decide(Some(&view(held_by("me"))), "me", 9 * DURATION), Step::Renew);
}

#[test]
fn time_runs_on_where_nothing_changed_and_starts_anew_where_anything_did() {
    let first = LeaseView::see(None, held_by("other"), RETRY);
    let same = LeaseView::see(Some(first.clone()), held_by("other"), 2 * RETRY);
    assert_eq!(same, first);
    let renewed = Record::taken(Some(&first.record), "other", DURATION, 2);
    assert_ne!(renewed.renewed, first.record.renewed, "a renewal shows even if the wall clock stands still");
    let seen = LeaseView::see(Some(same), renewed, 3 * RETRY);
    assert_eq!(seen.since, 3 * RETRY);
}

#[test]
fn a_lease_tells_since_when_it_is_whose_and_how_often_it_changed_hands() {
    let first = Record::taken(None, "a", DURATION, 10);
    assert_eq!((first.acquired, first.renewed, first.transitions), (10, 10, 0));
    let renewed = Record::taken(Some(&first), "a", DURATION, 20);
    assert_eq!((renewed.acquired, renewed.renewed, renewed.transitions), (10, 20, 0));
    let other = Record::taken(Some(&renewed.released(25)), "b", DURATION, 30);
    assert_eq!((other.acquired, other.renewed, other.transitions), (30, 30, 1));
}

// What follows plays replicas against one store. Every call has three moments, with anything in between: it is sent, served, answered.

/// The API server's side: writes are compare-and-swap.
#[derive(Debug, Default)]
struct Store {
    version: u64,
    record: Option<Record>,
}

#[derive(Debug, Clone)]
enum Call {
    Get { answer: Option<(u64, Option<Record>)> },
    Put { write: Write, sent: Duration, answer: Option<bool> },
}

#[derive(Debug, Clone)]
struct Write {
    version: u64,
    record: Record,
}

#[derive(Debug)]
struct Replica {
    name: String,
    /// Its clock: where it starts, and thousandths of the true speed.
    offset: Duration,
    speed: u32,
    view: Option<LeaseView>,
    version: u64,
    /// Whether its own last write is the newest it knows of: then it does not look before it renews.
    current: bool,
    call: Option<Call>,
    claim: Duration,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// The next moment of the replica's call, or its next call.
    Go,
    /// Time passes until the Lease is over for the replica: that is when rules are broken, if ever.
    Over,
    /// It stops waiting for an answer; what it wrote may still arrive.
    GiveUp,
    /// It lets the Lease go.
    Release,
    /// What somebody wrote long ago arrives.
    Late,
}

#[derive(Debug, Default)]
struct World {
    now: Duration,
    store: Store,
    late: Vec<Write>,
}

impl Store {
    fn put(&mut self, write: &Write) -> bool {
        let wins = write.version == self.version;
        if wins {
            self.version += 1;
            self.record = Some(write.record.clone());
        }
        wins
    }
}

impl Replica {
    fn clock(&self, world: &World) -> Duration {
        self.offset + world.now * self.speed / 1000
    }

    fn leads(&self, world: &World) -> bool {
        self.clock(world) < self.claim
    }

    fn wall(&self, world: &World) -> i64 {
        i64::try_from(self.clock(world).as_micros()).unwrap()
    }

    fn send(&mut self, record: Record, world: &World) {
        let write = Write { version: self.version, record };
        self.current = false;
        self.call = Some(Call::Put { write, sent: self.clock(world), answer: None });
    }

    fn happen(&mut self, event: Event, world: &mut World) {
        match event {
            Event::Go => self.go(world),
            Event::Over => {
                let left = match decide(self.view.as_ref(), &self.name, self.clock(world)) {
                    Step::Wait(left) => left,
                    Step::Acquire | Step::Renew => Duration::ZERO,
                };
                world.now += left * 1000 / self.speed;
            }
            Event::GiveUp => {
                if let Some(Call::Put { write, answer: None, .. }) = self.call.take() {
                    world.late.push(write);
                }
            }
            Event::Release => {
                if let (None, Some(view), true) = (&self.call, &self.view, self.leads(world)) {
                    let released = view.record.released(self.wall(world));
                    self.claim = Duration::ZERO;
                    self.send(released, world);
                }
            }
            Event::Late => {
                if !world.late.is_empty() {
                    let write = world.late.remove(0);
                    world.store.put(&write);
                }
            }
        }
    }

    fn step(&mut self, world: &World) {
        if !matches!(decide(self.view.as_ref(), &self.name, self.clock(world)), Step::Wait(_)) {
            let before = self.view.as_ref().map(|view| &view.record);
            self.send(Record::taken(before, &self.name, DURATION, self.wall(world)), world);
        }
    }

    fn go(&mut self, world: &mut World) {
        let now = self.clock(world);
        match self.call.take() {
            None if self.current => self.step(world),
            None => self.call = Some(Call::Get { answer: None }),
            Some(Call::Get { answer: None }) => {
                let answer = Some((world.store.version, world.store.record.clone()));
                self.call = Some(Call::Get { answer });
            }
            Some(Call::Get { answer: Some((version, record)) }) => {
                self.version = version;
                if let Some(record) = record {
                    if record.holder != self.name {
                        self.claim = Duration::ZERO;
                    }
                    self.view = Some(LeaseView::see(self.view.take(), record, now));
                }
                self.step(world);
            }
            Some(Call::Put { write, sent, answer: None }) => {
                let answer = Some(world.store.put(&write));
                self.call = Some(Call::Put { write, sent, answer });
            }
            Some(Call::Put { write, sent, answer: Some(true) }) => {
                self.version = write.version + 1;
                if write.record.holder == self.name {
                    self.claim = sent + claim(DURATION);
                    self.current = true;
                }
                self.view = Some(LeaseView::see(self.view.take(), write.record, now));
            }
            Some(Call::Put { answer: Some(false), .. }) => {}
        }
    }
}

/// Plays events, each after a pause. Gives back who led in turn.
fn play(
    clocks: &[(Duration, u32)],
    events: impl IntoIterator<Item = (usize, Event, Duration)>,
) -> Result<Vec<String>, TestCaseError> {
    let mut replicas: Vec<Replica> = (clocks.iter().zip('a'..))
        .map(|(&(offset, speed), name)| Replica {
            name: name.to_string(),
            offset,
            speed,
            view: None,
            version: 0,
            current: false,
            call: None,
            claim: Duration::ZERO,
        })
        .collect();
    let mut world = World::default();
    let mut led: Vec<String> = Vec::new();
    for (who, event, pause) in events {
        world.now += pause;
        let who = who % replicas.len();
        replicas[who].happen(event, &mut world);
        let leaders: Vec<&str> =
            replicas.iter().filter(|r| r.leads(&world)).map(|r| r.name.as_str()).collect();
        prop_assert!(leaders.len() <= 1, "{leaders:?} lead at {:?}", world.now);
        if let [leader] = leaders[..]
            && led.last().is_none_or(|last| last != leader)
        {
            led.push(leader.to_owned());
        }
    }
    Ok(led)
}

/// Some events of one replica in a row, each after the same pause.
fn burst() -> impl Strategy<Value = Vec<(usize, Event, Duration)>> {
    let event = prop_oneof![
        30 => Just(Event::Go),
        4 => Just(Event::Over),
        1 => Just(Event::GiveUp),
        1 => Just(Event::Release),
        1 => Just(Event::Late),
    ];
    // Mostly quick, at times as long as a Lease.
    let pause = prop_oneof![8 => 0..20u64, 2 => 20..1000u64, 1 => 8000..12_000u64];
    (0..3usize, event, pause.prop_map(Duration::from_millis), 1..8usize)
        .prop_map(|(who, event, pause, times)| vec![(who, event, pause); times])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn at_most_one_leads_whatever_is_late_lost_or_paused_and_however_clocks_differ(
        clocks in prop::collection::vec(((0..100_000u64).prop_map(Duration::from_millis), 960..=1040u32), 2..=3),
        events in prop::collection::vec(burst(), 1..100),
    ) {
        play(&clocks, events.into_iter().flatten())?;
    }
}

#[test]
fn the_lead_goes_on_when_its_holder_stops_or_releases() {
    let clocks = [(Duration::ZERO, 1000), (Duration::from_secs(7), 1010)];
    let go = |who, rounds| std::iter::repeat_n((who, Event::Go, 200 * MILLI), rounds);
    // `a` takes it and stops; `b` looks on until it is over, releases it, and `a` takes it again.
    let events = go(0, 6)
        .chain(go(1, 90))
        .chain((0..3).flat_map(|_| [(1, Event::Release, MILLI), (1, Event::Go, MILLI)]))
        .chain(go(0, 12));
    assert_eq!(play(&clocks, events).unwrap(), ["a", "b", "a"]);
}
