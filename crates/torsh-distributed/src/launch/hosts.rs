//! The machines of a launch.

use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;

use torsh_tensor::{Result, TorshError};

/// A machine, and how many ranks it takes: `name` or `name:4`.
///
/// ```
/// use torsh_distributed::launch::Host;
///
/// let host: Host = "node1:4".parse()?;
/// assert_eq!((host.name.as_str(), host.slots), ("node1", Some(4)));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name or address.
    pub name: String,
    /// How many ranks it takes; `None` for its part of all.
    pub slots: Option<usize>,
}

#[cold]
fn no_host(text: &str) -> TorshError {
    TorshError::invalid("torshrun", format!("`{text}` is no host"))
        .with_hint("write NAME or NAME:RANKS, as node1 or node1:4")
}

impl FromStr for Host {
    type Err = TorshError;

    fn from_str(text: &str) -> Result<Host> {
        let (name, slots) = match text.rsplit_once(':') {
            Some((name, slots)) if !name.contains(':') => {
                let slots = slots.parse().map_err(|_| no_host(text))?;
                (name, Some(slots))
            }
            _ => (text, None),
        };
        let odd = |c: char| c.is_whitespace() || c == ',' || c.is_control();
        if name.is_empty() || name.starts_with('-') || name.contains(odd) || slots == Some(0) {
            return Err(no_host(text));
        }
        Ok(Host {
            name: name.to_string(),
            slots,
        })
    }
}

impl Host {
    /// Reads the hosts of a list with commas.
    ///
    /// ```
    /// use torsh_distributed::launch::Host;
    /// let hosts = Host::list("node1:4, node2")?;
    /// let first: Host = "node1:4".parse()?;
    /// assert_eq!((&hosts[0], hosts[1].name.as_str(), hosts[1].slots), (&first, "node2", None));
    /// assert!(Host::list("node1:0").unwrap_err().to_string().contains("`node1:0` is no host"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn list(text: &str) -> Result<Vec<Host>> {
        let names = text.split(',').map(str::trim).filter(|t| !t.is_empty());
        names.map(str::parse).collect()
    }

    /// Reads the hosts of a file, one a line: `name`, `name:4` (as MPICH's) or `name slots=4` (as Open MPI's); `#`
    /// begins a comment.
    ///
    /// ```
    /// use torsh_distributed::launch::Host;
    /// let path = std::env::temp_dir().join(format!("torsh-hosts-{}", std::process::id()));
    /// std::fs::write(&path, "node1:4 # MPICH's way\nnode2 slots=2\n\nnode3\n")?;
    /// let slots: Vec<_> = Host::file(&path)?.into_iter().map(|host| host.slots).collect();
    /// assert_eq!(slots, [Some(4), Some(2), None]);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn file(path: impl AsRef<Path>) -> Result<Vec<Host>> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|e| {
            TorshError::from(std::io::Error::new(
                e.kind(),
                format!("the host file {}: {e}", path.display()),
            ))
        })?;
        parse_file(&text)
    }
}

fn parse_file(text: &str) -> Result<Vec<Host>> {
    let mut hosts = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or("");
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else {
            continue;
        };
        let mut host: Host = name.parse()?;
        for word in words {
            let slots = word.strip_prefix("slots=").or(word.strip_prefix("slots:"));
            let slots = slots.and_then(|n| n.parse().ok()).filter(|&n| n > 0);
            host.slots = Some(slots.ok_or_else(|| no_host(line.trim()))?);
        }
        hosts.push(host);
    }
    Ok(hosts)
}

/// An error where hosts do not take so many ranks, or one is there twice.
pub(super) fn check(hosts: &[Host], nproc: usize) -> Result<()> {
    for (i, host) in hosts.iter().enumerate() {
        if hosts[..i].iter().any(|h| h.name == host.name) {
            return Err(TorshError::invalid(
                "torshrun",
                format!("the host `{}` is there twice", host.name),
            )
            .with_hint("give it once, with the sum of its ranks"));
        }
    }
    let known: Option<usize> = hosts.iter().map(|h| h.slots).sum();
    match known {
        Some(slots) if !hosts.is_empty() && slots < nproc => Err(TorshError::invalid(
            "torshrun",
            format!("the hosts take {slots} ranks, and nproc is {nproc}"),
        )),
        _ => Ok(()),
    }
}

/// How many ranks run where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assigned {
    /// Hosts with the ranks they take; none for this machine.
    hosts: Vec<(String, usize)>,
    nproc: usize,
}

impl Assigned {
    pub(super) fn new(hosts: &[Host], nproc: usize) -> Assigned {
        // A host that does not say how many it takes gets its part of what those that do leave.
        let said: usize = hosts.iter().filter_map(|h| h.slots).sum();
        let open = hosts.iter().filter(|h| h.slots.is_none()).count();
        let each = nproc.saturating_sub(said).div_ceil(open.max(1));
        let slots = |h: &Host| (h.name.clone(), h.slots.unwrap_or(each));
        Assigned {
            hosts: hosts.iter().map(slots).filter(|(_, n)| *n > 0).collect(),
            nproc,
        }
    }

    /// How many ranks there are.
    pub(super) fn total(&self) -> usize {
        self.nproc
    }

    /// The hosts in use, each with its ranks.
    pub(super) fn filled(&self) -> Vec<(&str, usize)> {
        let mut left = self.nproc;
        let mut out = Vec::new();
        for (name, slots) in &self.hosts {
            let here = left.min(*slots);
            left -= here;
            if here > 0 {
                out.push((name.as_str(), here));
            }
        }
        out
    }

    /// The most ranks of one machine.
    pub(super) fn most_on_one(&self) -> usize {
        let counts = self.filled().into_iter().map(|(_, n)| n);
        counts.max().unwrap_or(self.nproc)
    }

    /// The hosts that answer, with as many ranks as they take; why not, where these are fewer than `min`.
    pub(super) fn without_lost(&self, min: usize) -> std::result::Result<Assigned, String> {
        self.keep(min, answers)
    }

    pub(super) fn keep(
        &self,
        min: usize,
        answers: impl Fn(&str) -> bool,
    ) -> std::result::Result<Assigned, String> {
        if self.hosts.is_empty() {
            return Ok(self.clone());
        }
        let (there, lost): (Vec<_>, Vec<_>) = self
            .hosts
            .iter()
            .cloned()
            .partition(|(name, _)| answers(name));
        let slots: usize = there.iter().map(|(_, n)| n).sum();
        let nproc = self.nproc.min(slots);
        let lost: Vec<String> = lost.into_iter().map(|(name, _)| name).collect();
        if nproc < min {
            let least = if min < self.nproc {
                "min-nproc"
            } else {
                "nproc"
            };
            return Err(format!(
                "{} did not answer; the other hosts take {nproc} ranks, and {least} is {min}",
                lost.join(", ")
            ));
        }
        if !lost.is_empty() {
            eprintln!(
                "torshrun: {} did not answer and is left out",
                lost.join(", ")
            );
        }
        Ok(Assigned {
            hosts: there,
            nproc,
        })
    }
}

/// The program that reaches other machines, where it is not `ssh`.
pub(super) fn remote_shell() -> Option<String> {
    std::env::var("TORSH_RSH").ok().filter(|v| !v.is_empty())
}

/// This machine's name; none where the system does not say.
fn own_name() -> String {
    if cfg!(windows) {
        return std::env::var("COMPUTERNAME").unwrap_or_default();
    }
    if cfg!(target_os = "linux") {
        return std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    }
    let said = Command::new("hostname").output();
    said.map_or_else(
        |_| String::new(),
        |said| String::from_utf8_lossy(&said.stdout).into_owned(),
    )
}

fn is_this_machine(name: &str) -> bool {
    let own = own_name();
    let known = ["localhost", "127.0.0.1", "::1", own.trim()];
    // Windows writes its name in capitals.
    known.contains(&name) || cfg!(windows) && own.eq_ignore_ascii_case(name)
}

/// Whether a host can be reached.
fn answers(name: &str) -> bool {
    if is_this_machine(name) {
        return true;
    }
    let mut command = match remote_shell() {
        Some(shell) => Command::new(shell),
        None => {
            let mut ssh = Command::new("ssh");
            ssh.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=5"]);
            ssh
        }
    };
    let status = command
        .args([name, "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|s| s.success())
}
