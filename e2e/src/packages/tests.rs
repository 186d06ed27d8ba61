use std::{cell::RefCell, env, os::unix::fs::PermissionsExt, process};

use super::*;

/// A machine that lacks some programs; apt-get brings those of `apt_brings`.
struct Fake {
    lacks: RefCell<Vec<Need>>,
    apt_brings: &'static [Need],
    apt: bool,
    root: bool,
    /// What another bed installs while this one waits for the lock.
    brought_by_others: &'static [Need],
    asked_for: RefCell<Vec<String>>,
}

const FRESH: [Need; 3] = [Need::Program("ctr"), Need::Program("containerd"), Need::CniPlugin("bridge")];

fn lacking(needs: &[Need]) -> Fake {
    Fake {
        lacks: RefCell::new(needs.to_vec()),
        apt_brings: &FRESH,
        apt: true,
        root: true,
        brought_by_others: &[],
        asked_for: RefCell::default(),
    }
}

impl Machine for Fake {
    fn has(&self, need: Need) -> bool {
        !self.lacks.borrow().contains(&need)
    }

    fn is_root(&self) -> bool {
        self.root
    }

    fn has_apt(&self) -> bool {
        self.apt
    }

    fn lock(&self) -> Result<Option<File>> {
        self.lacks.borrow_mut().retain(|need| !self.brought_by_others.contains(need));
        Ok(None)
    }

    fn install(&self, packages: &BTreeSet<&str>) -> Result<()> {
        self.asked_for.borrow_mut().extend(packages.iter().map(|&package| package.to_owned()));
        self.lacks.borrow_mut().retain(|need| !self.apt_brings.contains(need));
        Ok(())
    }
}

#[test]
fn a_complete_machine_needs_neither_root_nor_apt() {
    let machine = Fake { apt: false, root: false, ..lacking(&[]) };
    ensure_on(&machine, NEEDS).unwrap();
}

#[test]
fn each_missing_package_is_installed_once() {
    let machine = lacking(&FRESH);
    ensure_on(&machine, NEEDS).unwrap();
    assert_eq!(*machine.asked_for.borrow(), ["containerd", "containernetworking-plugins"]);
}

#[test]
fn what_another_bed_installed_meanwhile_is_not_installed_again() {
    let machine = Fake { brought_by_others: &FRESH, ..lacking(&FRESH) };
    ensure_on(&machine, NEEDS).unwrap();
    assert!(machine.asked_for.borrow().is_empty());
}

#[test]
fn messages_name_the_programs_and_the_packages_that_have_them() {
    let without_apt = Fake { apt: false, ..lacking(&FRESH) };
    let without_root = Fake { root: false, ..lacking(&[Need::Program("nft")]) };
    let with_an_apt_that_fails_silently =
        Fake { apt_brings: &[], ..lacking(&[Need::Program("nc.openbsd"), Need::Program("ping")]) };
    for (machine, message) in [
        (
            without_apt,
            "containerd, ctr, CNI plugin bridge are missing, and there is no apt-get to install the Debian packages \
             containerd containernetworking-plugins",
        ),
        (without_root, "nft is missing, and installing the Debian package nftables needs root"),
        (
            with_an_apt_that_fails_silently,
            "nc.openbsd, ping are missing even after apt-get installed the Debian packages iputils-ping netcat-openbsd",
        ),
    ] {
        assert_eq!(ensure_on(&machine, NEEDS).unwrap_err().to_string(), message);
    }
}

/// A path of this test's own in a directory that exists.
fn policy(test: &str) -> PathBuf {
    env::temp_dir().join(format!("tombolo-policy-{test}-{}", process::id()))
}

#[test]
fn the_policy_against_services_lasts_as_long_as_it_is_held() {
    let path = policy("lasts");
    let held = NoServices::set(&path).unwrap();
    let status = Command::new(&path).status().unwrap();
    assert_eq!(status.code(), Some(101), "invoke-rc.d takes 101 for forbidden");
    drop(held);
    assert!(!path.exists());
}

#[test]
fn a_policy_that_was_there_stays_as_it_was() {
    let path = policy("stays");
    fs::write(&path, "#!/bin/sh\nexit 0\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    drop(NoServices::set(&path).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), "#!/bin/sh\nexit 0\n");
    fs::remove_file(path).unwrap();
}

#[test]
fn a_policy_left_behind_by_a_killed_run_is_removed() {
    let path = policy("left");
    fs::write(&path, POLICY_TEXT).unwrap();
    drop(NoServices::set(&path).unwrap());
    assert!(!path.exists());
}
