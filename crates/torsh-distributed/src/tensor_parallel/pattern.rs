//! Names of modules with `*` and `?`.

/// Whether a name fits a pattern. Both are cut at their dots; in each part `*` stands for any text and `?` for one
/// character.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let (mut p, mut n) = (pattern.split('.'), name.split('.'));
    loop {
        match (p.next(), n.next()) {
            (None, None) => return true,
            (Some(p), Some(n)) if part_fits(p.as_bytes(), n.as_bytes()) => {}
            _ => return false,
        }
    }
}

fn part_fits(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.first(), text.first()) {
        (None, None) => true,
        (Some(b'*'), _) => {
            part_fits(&pattern[1..], text) || (!text.is_empty() && part_fits(pattern, &text[1..]))
        }
        (Some(b'?'), Some(_)) => part_fits(&pattern[1..], &text[1..]),
        (Some(a), Some(b)) if a == b => part_fits(&pattern[1..], &text[1..]),
        _ => false,
    }
}

/// The names that are most like a name, at most `most`.
pub(super) fn near<'a>(name: &str, names: &[&'a str], most: usize) -> Vec<&'a str> {
    let mut all: Vec<(usize, &str)> = names.iter().map(|n| (distance(name, n), *n)).collect();
    all.sort_by_key(|(d, _)| *d);
    all.into_iter().take(most).map(|(_, n)| n).collect()
}

/// How many characters are to be changed, added or removed to make one text the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stay_between_dots() {
        assert!(fits("blocks.*.fc1", "blocks.0.fc1"));
        assert!(fits("blocks.*.fc?", "blocks.12.fc2"));
        assert!(fits("*", "head"));
        assert!(!fits("blocks.*", "blocks.0.fc1"));
        assert!(!fits("blocks.*.fc1", "blocks.0.fc10"));
        assert!(!fits("blocks.*.fc1.x", "blocks.0.fc1"));
    }

    #[test]
    fn near_names_come_first() {
        assert_eq!(near("fc3", &["norm", "fc1", "embedding"], 1), ["fc1"]);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
