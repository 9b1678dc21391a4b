use super::*;

/// A described machine is read back from what it prints.
#[test]
fn descriptions_are_files() {
    for name in Machine::DESCRIBED {
        let described = Machine::described(name).unwrap();
        let mut read = Machine::detect();
        read.read(&format!("# a comment\n\n{described}")).unwrap();
        assert_eq!(read, described);
    }
    assert_eq!(Machine::described("zen9"), None);
}

#[test]
fn wrong_lines_are_refused_by_number() {
    let mut machine = Machine::described("zen3").unwrap();
    let mut error = |text: &str| machine.read(text).unwrap_err();
    assert_eq!(error("l1 = 1\nl2"), "line 2: no `=` in `l2`");
    assert_eq!(error("l4 = 1"), "line 1: l4 = 1: no such property");
    assert_eq!(
        error("half_rate_512 = yes"),
        "line 1: half_rate_512 = yes: neither true nor false"
    );
    assert_eq!(
        error("level = avx3"),
        "line 1: level = avx3: none of avx512, avx2, neon and base"
    );
    assert!(error("cores = two").starts_with("line 1: cores = two: not a number"));
}

/// `TORSH_SIMD` and `TORSH_MACHINE` take instructions away, and add none.
#[test]
fn the_environment_only_takes_instructions_away() {
    let amx = Machine::described("amx").unwrap();
    let zen3 = Machine::described("zen3").unwrap();
    let of = |found: &Machine, simd, described| Machine::replaced(found, simd, described).unwrap();
    assert_eq!(of(&amx, None, None), amx);
    let without = of(&amx, Some("avx512"), None);
    assert_eq!(
        (without.level, without.bf16_tiles, without.bf16_dot),
        (Level::Avx512, false, true)
    );
    let avx2 = of(&amx, Some("avx2"), None);
    assert_eq!((avx2.level, avx2.bf16_dot), (Level::Avx2, false));
    assert_eq!(of(&amx, Some("scalar"), None).level, Level::Base);
    let more = of(&zen3, None, Some("amx"));
    assert_eq!(
        (more.level, more.bf16_tiles, more.l2),
        (Level::Avx2, false, 2 << 20)
    );
    // No instructions of another architecture.
    assert_eq!(of(&amx, Some("neon"), None).level, Level::Base);
    assert_eq!(of(&amx, None, Some("neon")).level, Level::Base);
    let neon = Machine::described("neon").unwrap();
    assert_eq!(of(&neon, Some("avx2"), Some("zen4")).level, Level::Neon);
    assert!(!of(&neon, None, Some("zen4")).streaming_stores);
    let error = Machine::replaced(&amx, Some("sse"), None).unwrap_err();
    assert_eq!(
        error,
        "TORSH_SIMD=sse: none of avx512, avx2, neon and scalar"
    );
    let error = Machine::replaced(&amx, None, Some("/no/such")).unwrap_err();
    assert!(
        error.starts_with("TORSH_MACHINE=/no/such: neither one of zen3, zen4"),
        "{error}"
    );
}

#[test]
fn light_loops_avoid_halves() {
    let light = |name| Machine::described(name).unwrap().light_level();
    assert_eq!(light("zen4"), Level::Avx2);
    assert_eq!(light("zen5"), Level::Avx512);
    assert_eq!(light("neon"), Level::Neon);
}

/// The caches are those that Linux says, where it does.
#[test]
#[cfg_attr(
    miri,
    ignore = "Miri neither executes `cpuid` nor reads the system's files"
)]
fn caches_are_the_systems() {
    let found = Machine::detect();
    for nth in 0..4 {
        let of = |what: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{nth}/{what}");
            std::fs::read_to_string(path).unwrap_or_default()
        };
        let size = of("size");
        let Some(Ok(kib)) = size.trim().strip_suffix('K').map(str::parse::<usize>) else {
            continue;
        };
        let ours = match (of("level").trim(), of("type").trim()) {
            ("1", "Data") => found.l1,
            ("2", _) => found.l2,
            ("3", _) => found.l3,
            _ => continue,
        };
        assert!(
            ours == kib << 10 || ours == 0,
            "index{nth}: {ours}, not {kib} KiB"
        );
    }
}
