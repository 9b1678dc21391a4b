//! Python's `strftime`, in the C locale and in UTC.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// A moment by the calendar.
struct Moment {
    year: i64,
    /// From 0.
    month: usize,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: u32,
    /// From Sunday, 0.
    weekday: usize,
    /// From 0.
    day_of_year: i64,
    seconds: i64,
}

impl Moment {
    fn new(time: SystemTime) -> Moment {
        let (seconds, micros) = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => (after.as_secs() as i64, after.subsec_micros()),
            Err(before) => (-(before.duration().as_secs() as i64), 0),
        };
        let days = seconds.div_euclid(86_400);
        let rest = seconds.rem_euclid(86_400);
        // Years begin in March, so that a leap day is the last one of its year.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = (month + 2) % 12;
        let year = year_of_era + era * 400 + i64::from(month < 2);
        let leap = i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
        let day_of_year = match month {
            0 | 1 => day_of_year - 306,
            _ => day_of_year + 59 + leap,
        };
        Moment {
            year,
            month: month as usize,
            day,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
            micros,
            weekday: (days + 4).rem_euclid(7) as usize,
            day_of_year,
            seconds,
        }
    }

    /// A number as wide as the directive asks for: `%-d` without zeros, `%d` with them, `%e` with a space.
    fn number(&self, out: &mut String, flag: Option<char>, value: i64, width: usize, fill: char) {
        let _ = match (flag, fill) {
            (Some('-'), _) => write!(out, "{value}"),
            (Some('_'), _) | (None, ' ') => write!(out, "{value:width$}"),
            _ => write!(out, "{value:0width$}"),
        };
    }

    fn directive(&self, out: &mut String, flag: Option<char>, name: char) -> bool {
        let (value, width) = match name {
            'Y' => (self.year, 1),
            'y' => (self.year.rem_euclid(100), 2),
            'C' => (self.year.div_euclid(100), 2),
            'm' => (self.month as i64 + 1, 2),
            'd' | 'e' => (self.day, 2),
            'H' | 'k' => (self.hour, 2),
            'I' | 'l' => ((self.hour + 11) % 12 + 1, 2),
            'M' => (self.minute, 2),
            'S' => (self.second, 2),
            'f' => (i64::from(self.micros), 6),
            'j' => (self.day_of_year + 1, 3),
            'w' => (self.weekday as i64, 1),
            'u' => ((self.weekday as i64 + 6) % 7 + 1, 1),
            'U' => ((self.day_of_year + 7 - self.weekday as i64) / 7, 2),
            'W' => (
                (self.day_of_year + 7 - (self.weekday as i64 + 6) % 7) / 7,
                2,
            ),
            's' => (self.seconds, 1),
            _ => {
                let text = match name {
                    'B' => MONTHS[self.month],
                    'b' | 'h' => &MONTHS[self.month][..3],
                    'A' => DAYS[self.weekday],
                    'a' => &DAYS[self.weekday][..3],
                    'p' if self.hour < 12 => "AM",
                    'p' => "PM",
                    // A time without a zone, as `datetime.now()`.
                    'Z' | 'z' => "",
                    'n' => "\n",
                    't' => "\t",
                    '%' => "%",
                    _ => {
                        let parts = match name {
                            'F' => "%Y-%m-%d",
                            'T' | 'X' => "%H:%M:%S",
                            'R' => "%H:%M",
                            'D' | 'x' => "%m/%d/%y",
                            'c' => "%a %b %e %H:%M:%S %Y",
                            'r' => "%I:%M:%S %p",
                            _ => return false,
                        };
                        self.write(out, parts);
                        return true;
                    }
                };
                out.push_str(text);
                return true;
            }
        };
        let fill = match name {
            'e' | 'k' | 'l' => ' ',
            _ => '0',
        };
        self.number(out, flag, value, width, fill);
        true
    }

    fn write(&self, out: &mut String, format: &str) {
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            let mut after = rest[at + 1..].chars();
            let mut next = after.next();
            let flag = next.filter(|c| matches!(c, '-' | '_' | '0'));
            if flag.is_some() {
                next = after.next();
            }
            match next {
                Some(name) if self.directive(out, flag, name) => rest = after.as_str(),
                // What is no directive stays as it is.
                _ => {
                    out.push('%');
                    rest = &rest[at + 1..];
                }
            }
        }
        out.push_str(rest);
    }
}

/// A time as a text.
pub(super) fn format(format: &str, time: SystemTime) -> String {
    let mut out = String::new();
    Moment::new(time).write(&mut out, format);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn days_are_those_of_the_calendar() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let day = |seconds| format("%a %d %b %Y %j %H:%M:%S", at(seconds));
        assert_eq!(day(0), "Thu 01 Jan 1970 001 00:00:00");
        assert_eq!(day(951_782_400), "Tue 29 Feb 2000 060 00:00:00");
        assert_eq!(day(1_735_689_599), "Tue 31 Dec 2024 366 23:59:59");
        assert_eq!(day(1_709_251_200), "Fri 01 Mar 2024 061 00:00:00");
        assert_eq!(
            format("%-d %B, %y %I%p %%", at(1_709_290_000)),
            "1 March, 24 10AM %"
        );
        assert_eq!(
            format("%F %T|%e|%U|%W|%u", at(1_709_290_000)),
            "2024-03-01 10:46:40| 1|08|09|5"
        );
        assert_eq!(format("100% of %Q %", at(0)), "100% of %Q %");
    }
}
