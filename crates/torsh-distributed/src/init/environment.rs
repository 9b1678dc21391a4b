//! What the launcher says.

use torsh_tensor::{Result, TorshError};

/// What the launcher says of this process.
///
/// ```
/// let env = torsh_distributed::init_from_env()?; // Nobody has started other ranks.
/// assert_eq!((env.rank(), env.world_size(), env.local_rank()), (0, 1, 0));
/// # torsh_distributed::destroy()?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    rank: usize,
    world_size: usize,
    local_rank: usize,
}

impl Environment {
    /// This rank among all.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks there are.
    pub fn world_size(&self) -> usize {
        self.world_size
    }

    /// This rank among those of its machine.
    pub fn local_rank(&self) -> usize {
        self.local_rank
    }
}

/// The variables of a launcher: its name, rank, number of ranks, rank on the machine.
const KNOWN: [(&str, &str, &str, &[&str]); 3] = [
    (
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        &["OMPI_COMM_WORLD_LOCAL_RANK"],
    ),
    (
        "MPICH",
        "PMI_RANK",
        "PMI_SIZE",
        &["MPI_LOCALRANKID", "LOCAL_RANK"],
    ),
    ("the environment", "RANK", "WORLD_SIZE", &["LOCAL_RANK"]),
];

/// Who has started this process.
pub(super) struct Launcher {
    found: Option<(&'static str, Environment)>,
}

impl Launcher {
    pub(super) fn find() -> Result<Launcher> {
        Launcher::of(|name| std::env::var(name).ok())
    }

    /// The launcher whose variables are set.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Launcher> {
        let number = |name: &str| -> Result<Option<usize>> {
            let Some(text) = variable(name) else {
                return Ok(None);
            };
            text.trim().parse().map(Some).map_err(|_| {
                let message = format!("{name} is {text:?}, which is no number");
                TorshError::invalid("init_from_env", message)
                    .with_hint("the launcher sets it: start the program with mpiexec or torshrun")
            })
        };
        for (launcher, rank, size, local) in KNOWN {
            let (Some(r), Some(n)) = (number(rank)?, number(size)?) else {
                continue;
            };
            if r >= n {
                let message = format!("{rank} is {r} and {size} is {n}");
                return Err(
                    TorshError::invalid("init_from_env", message).with_hint("ranks count from 0")
                );
            }
            let mut local_rank = None;
            for name in local {
                local_rank = local_rank.or(number(name)?);
            }
            let environment = Environment {
                rank: r,
                world_size: n,
                local_rank: local_rank.unwrap_or(r),
            };
            return Ok(Launcher {
                found: Some((launcher, environment)),
            });
        }
        Ok(Launcher { found: None })
    }

    /// The environment, if it is what the program takes it for.
    pub(super) fn agree(&self, rank: Option<usize>, size: Option<usize>) -> Result<Environment> {
        const OP: &str = "init_distributed";
        let one = Environment {
            rank: 0,
            world_size: 1,
            local_rank: 0,
        };
        let (launcher, there) = match &self.found {
            Some((launcher, environment)) => (Some(*launcher), environment.clone()),
            None => (None, one),
        };
        let (r, n) = (rank.unwrap_or(there.rank), size.unwrap_or(there.world_size));
        if (r, n) == (there.rank, there.world_size) {
            return Ok(there);
        }
        Err(match launcher {
            Some(launcher) => TorshError::invalid(
                OP,
                format!(
                    "the program says rank {r} of {n} ranks, and {launcher} has started rank {} of {}",
                    there.rank, there.world_size
                ),
            )
            .with_hint("take both from the launcher with init_from_env()"),
            None => TorshError::invalid(
                OP,
                format!("the program says rank {r} of {n} ranks, and nobody has started other ranks than this one"),
            )
            .with_hint(format!("start it with: mpiexec -n {n} {}", command())),
        })
    }
}

/// The command that this program was started with.
fn command() -> String {
    let quoted = |a: String| match a.contains(char::is_whitespace) || a.is_empty() {
        true => format!("{a:?}"),
        false => a,
    };
    let all: Vec<String> = std::env::args_os()
        .map(|a| quoted(a.to_string_lossy().into_owned()))
        .collect();
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Launcher> {
        Launcher::of(|name| {
            let found = variables.iter().find(|(n, _)| *n == name);
            found.map(|(_, v)| v.to_string())
        })
    }

    #[test]
    fn launchers_are_read() -> Result<()> {
        let open = of(&[
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("RANK", "0"),
            ("WORLD_SIZE", "1"),
        ])?;
        let env = open.agree(None, None)?;
        assert_eq!((env.rank(), env.world_size(), env.local_rank()), (3, 4, 1));
        let mpich = of(&[
            ("PMI_RANK", "1"),
            ("PMI_SIZE", "2"),
            ("MPI_LOCALRANKID", "0"),
        ])?;
        let env = mpich.agree(Some(1), Some(2))?;
        assert_eq!((env.rank(), env.world_size(), env.local_rank()), (1, 2, 0));
        let torch = of(&[("RANK", "5"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "2")])?;
        assert_eq!(torch.agree(None, None)?.local_rank(), 2);
        assert_eq!(of(&[])?.agree(Some(0), Some(1))?.world_size(), 1);
        Ok(())
    }

    #[test]
    fn what_does_not_fit_is_refused() -> Result<()> {
        let mpich = of(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")])?;
        let e = mpich.agree(Some(0), Some(2)).expect_err("another rank");
        let e = e.to_string();
        assert!(
            e.contains("rank 0 of 2") && e.contains("MPICH has started rank 1 of 2"),
            "{e}"
        );
        let e = of(&[])?.agree(Some(0), Some(2)).expect_err("no launcher");
        assert!(e.to_string().contains("mpiexec -n 2 "), "{e}");
        assert!(of(&[("RANK", "x"), ("WORLD_SIZE", "2")]).is_err());
        assert!(of(&[("RANK", "2"), ("WORLD_SIZE", "2")]).is_err());
        Ok(())
    }
}
