//! Porter's stemmer.

/// The stem of an English word (Porter, "An algorithm for suffix stripping", 1980), with the changes that NLTK's
/// `PorterStemmer` makes to it: METEOR and ROUGE compare stems so.
///
/// ```
/// use torsh_text::metrics::porter_stem;
/// assert_eq!(["Relational", "hopping", "flies", "dying"].map(porter_stem), ["relat", "hop", "fli", "die"]);
/// ```
pub fn porter_stem(word: &str) -> String {
    let word = word.to_lowercase();
    let irregular = match word.as_str() {
        "sky" | "skies" => "sky",
        "dying" => "die",
        "lying" => "lie",
        "tying" => "tie",
        "news" => "news",
        "innings" | "inning" => "inning",
        "outings" | "outing" => "outing",
        "cannings" | "canning" => "canning",
        "howe" => "howe",
        "proceed" => "proceed",
        "exceed" => "exceed",
        "succeed" => "succeed",
        _ => "",
    };
    if !irregular.is_empty() {
        return irregular.to_string();
    }
    let mut word: Vec<char> = word.chars().collect();
    if word.len() > 2 {
        for step in [
            plurals,
            participles,
            final_y,
            second,
            third,
            fourth,
            final_e,
            double_l,
        ] {
            step(&mut word);
        }
    }
    word.into_iter().collect()
}

fn ends(word: &[char], suffix: &str) -> bool {
    let n = suffix.len();
    word.len() >= n && word[word.len() - n..].iter().copied().eq(suffix.chars())
}

fn replace(word: &mut Vec<char>, suffix: &str, by: &str) {
    word.truncate(word.len() - suffix.len());
    word.extend(by.chars());
}

/// For each letter, whether it is a consonant: `y` is one at the beginning and after a vowel.
fn consonants(word: &[char]) -> Vec<bool> {
    let mut out: Vec<bool> = Vec::with_capacity(word.len());
    for &c in word {
        out.push(match c {
            'a' | 'e' | 'i' | 'o' | 'u' => false,
            'y' => out.last().is_none_or(|&before| !before),
            _ => true,
        });
    }
    out
}

/// How often a consonant follows a vowel.
fn measure(stem: &[char]) -> usize {
    let kinds = consonants(stem);
    kinds.windows(2).filter(|w| !w[0] && w[1]).count()
}

/// Consonant, vowel and consonant at the end, of which the last is not w, x or y; or a word of a vowel and a consonant.
fn ends_cvc(word: &[char]) -> bool {
    match consonants(word)[..] {
        [.., true, false, true] => !matches!(word[word.len() - 1], 'w' | 'x' | 'y'),
        [false, true] => true,
        _ => false,
    }
}

/// Applies the first rule whose suffix the word has, where the stem passes; other rules are not tried then.
fn first_rule(
    word: &mut Vec<char>,
    rules: &[(&str, &str)],
    passes: impl Fn(&str, &[char]) -> bool,
) {
    let Some((suffix, by)) = rules.iter().find(|(suffix, _)| ends(word, suffix)) else {
        return;
    };
    if passes(suffix, &word[..word.len() - suffix.len()]) {
        replace(word, suffix, by);
    }
}

fn plurals(word: &mut Vec<char>) {
    if ends(word, "ies") && word.len() == 4 {
        return replace(word, "ies", "ie");
    }
    let rules = [("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")];
    first_rule(word, &rules, |_, _| true);
}

fn participles(word: &mut Vec<char>) {
    if ends(word, "ied") {
        let by = if word.len() == 4 { "ie" } else { "i" };
        return replace(word, "ied", by);
    }
    if ends(word, "eed") {
        if measure(&word[..word.len() - 3]) > 0 {
            replace(word, "eed", "ee");
        }
        return;
    }
    let has_vowel = |stem: &[char]| consonants(stem).contains(&false);
    let suffix = ["ed", "ing"]
        .into_iter()
        .find(|s| ends(word, s) && has_vowel(&word[..word.len() - s.len()]));
    let Some(suffix) = suffix else { return };
    replace(word, suffix, "");
    for (end, by) in [("at", "ate"), ("bl", "ble"), ("iz", "ize")] {
        if ends(word, end) {
            return replace(word, end, by);
        }
    }
    let doubled = matches!(word[..], [.., a, b] if a == b);
    if doubled && consonants(word).last() == Some(&true) {
        if !matches!(word.last(), Some('l' | 's' | 'z')) {
            word.pop();
        }
    } else if measure(word) == 1 && ends_cvc(word) {
        word.push('e');
    }
}

fn final_y(word: &mut Vec<char>) {
    first_rule(word, &[("y", "i")], |_, stem| {
        stem.len() > 1 && consonants(stem).last() == Some(&true)
    });
}

fn second(word: &mut Vec<char>) {
    const RULES: [(&str, &str); 22] = [
        ("ational", "ate"),
        ("tional", "tion"),
        ("enci", "ence"),
        ("anci", "ance"),
        ("izer", "ize"),
        ("bli", "ble"),
        ("alli", "al"),
        ("entli", "ent"),
        ("eli", "e"),
        ("ousli", "ous"),
        ("ization", "ize"),
        ("ation", "ate"),
        ("ator", "ate"),
        ("alism", "al"),
        ("iveness", "ive"),
        ("fulness", "ful"),
        ("ousness", "ous"),
        ("aliti", "al"),
        ("iviti", "ive"),
        ("biliti", "ble"),
        ("fulli", "ful"),
        ("logi", "log"),
    ];
    if ends(word, "alli") && measure(&word[..word.len() - 4]) > 0 {
        replace(word, "alli", "al");
    }
    let whole = word.clone();
    first_rule(word, &RULES, |suffix, stem| match suffix {
        // The l belongs to the stem that is measured.
        "logi" => measure(&whole[..whole.len() - 3]) > 0,
        _ => measure(stem) > 0,
    });
}

fn third(word: &mut Vec<char>) {
    const RULES: [(&str, &str); 7] = [
        ("icate", "ic"),
        ("ative", ""),
        ("alize", "al"),
        ("iciti", "ic"),
        ("ical", "ic"),
        ("ful", ""),
        ("ness", ""),
    ];
    first_rule(word, &RULES, |_, stem| measure(stem) > 0);
}

fn fourth(word: &mut Vec<char>) {
    const SUFFIXES: [&str; 19] = [
        "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion",
        "ou", "ism", "ate", "iti", "ous", "ive", "ize",
    ];
    let rules = SUFFIXES.map(|s| (s, ""));
    first_rule(word, &rules, |suffix, stem| {
        measure(stem) > 1 && (suffix != "ion" || matches!(stem.last(), Some('s' | 't')))
    });
}

fn final_e(word: &mut Vec<char>) {
    first_rule(word, &[("e", "")], |_, stem| match measure(stem) {
        0 => false,
        1 => !ends_cvc(stem),
        _ => true,
    });
}

fn double_l(word: &mut Vec<char>) {
    let whole = word.clone();
    first_rule(word, &[("ll", "l")], |_, _| {
        measure(&whole[..whole.len() - 1]) > 1
    });
}

#[cfg(test)]
mod tests {
    use super::porter_stem;

    #[test]
    fn the_examples_of_the_paper_have_their_stems() {
        for (word, stem) in [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("ties", "tie"),
            ("feed", "feed"),
            ("agreed", "agre"),
            ("plastered", "plaster"),
            ("motoring", "motor"),
            ("sing", "sing"),
            ("conflated", "conflat"),
            ("troubled", "troubl"),
            ("falling", "fall"),
            ("filing", "file"),
            ("happy", "happi"),
            ("enjoy", "enjoy"),
            ("vietnamization", "vietnam"),
            ("radically", "radic"),
            ("triplicate", "triplic"),
            ("adoption", "adopt"),
            ("rate", "rate"),
            ("controll", "control"),
            ("geology", "geolog"),
            ("is", "is"),
        ] {
            assert_eq!(porter_stem(word), stem, "{word}");
        }
    }
}
