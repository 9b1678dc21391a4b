//! Meshes: ranks in a grid whose dimensions have names.

use std::fmt;
use std::ops::Index;
use std::sync::Arc;

use torsh_tensor::{Result, TorshError};

use crate::{ProcessGroup, world};

/// Ranks in a grid (`torch.distributed.device_mesh.DeviceMesh`): a group for each of its dimensions, so that one
/// dimension serves data parallel and another tensor parallel training.
///
/// The ranks lie in row-major order: of a mesh of `[2, 4]`, ranks 0 to 3 are its first row. A clone is another handle.
///
/// ```
/// use torsh_distributed::{DeviceMesh, spawn};
///
/// let rows = spawn(4, |_| {
///     let mesh = DeviceMesh::new(&[2, 2], &["dp", "tp"])?;
///     Ok(mesh["tp"].ranks().to_vec())
/// })?;
/// assert_eq!(rows, [[0, 1], [0, 1], [2, 3], [2, 3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct DeviceMesh(Arc<MeshState>);

struct MeshState {
    /// All ranks of the mesh, in its order.
    group: ProcessGroup,
    shape: Vec<usize>,
    names: Vec<String>,
    coordinate: Vec<usize>,
    /// One group per dimension: the ranks that differ from this one in it alone.
    groups: Vec<ProcessGroup>,
    /// Of meshes with more than two dimensions, the groups of each two of them.
    pairs: Vec<(usize, usize, ProcessGroup)>,
    /// The meshes of one dimension, of a mesh that has several.
    slices: Vec<DeviceMesh>,
}

/// A dimension of a [`DeviceMesh`], by its number or name.
///
/// ```
/// use torsh_distributed::MeshDim;
///
/// assert_eq!(MeshDim::from("tp"), MeshDim::Name("tp".into()));
/// assert_eq!(MeshDim::from(1), MeshDim::Index(1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeshDim {
    /// By number.
    Index(usize),
    /// By name.
    Name(String),
}

impl From<usize> for MeshDim {
    fn from(i: usize) -> MeshDim {
        MeshDim::Index(i)
    }
}

impl From<&str> for MeshDim {
    fn from(name: &str) -> MeshDim {
        MeshDim::Name(name.to_string())
    }
}

impl From<&String> for MeshDim {
    fn from(name: &String) -> MeshDim {
        MeshDim::Name(name.clone())
    }
}

/// The numbers of `rank`'s grid lines: row-major.
fn coordinate_of(mut rank: usize, shape: &[usize]) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for (i, n) in shape.iter().enumerate().rev() {
        at[i] = rank % n;
        rank /= n;
    }
    at
}

/// The ranks of a grid that agree with rank 0 in all dimensions but `dims`, and the offsets of the other such sets.
fn lines(shape: &[usize], dims: &[usize]) -> Vec<Vec<usize>> {
    let total: usize = shape.iter().product();
    let mut lines: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for rank in 0..total {
        let mut key = coordinate_of(rank, shape);
        for &d in dims {
            key[d] = 0;
        }
        match lines.iter_mut().find(|(k, _)| *k == key) {
            Some((_, line)) => line.push(rank),
            None => lines.push((key, vec![rank])),
        }
    }
    lines.into_iter().map(|(_, line)| line).collect()
}

impl DeviceMesh {
    /// A mesh of all ranks of the default group. All ranks call it, with the same arguments.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, spawn};
    ///
    /// let at = spawn(4, |_| Ok(DeviceMesh::new(&[2, 2], &["dp", "tp"])?.coordinate().to_vec()))?;
    /// assert_eq!(at, [[0, 0], [0, 1], [1, 0], [1, 1]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// The shape does not hold as many ranks as there are; names that are missing, empty or given twice; nothing is
    /// initialised.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(shape: &[usize], names: &[&str]) -> Result<DeviceMesh> {
        DeviceMesh::from_group(&world()?, shape, names)
    }

    /// A mesh of the ranks of a group, in its order. All ranks of the group call it, with the same arguments.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, spawn};
    ///
    /// let sizes = spawn(2, |g| DeviceMesh::from_group(&g, &[2], &["dp"])?.size("dp"))?;
    /// assert_eq!(sizes, [2, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`DeviceMesh::new`].
    #[torsh_tensor::names_caller(Self)]
    pub fn from_group(group: &ProcessGroup, shape: &[usize], names: &[&str]) -> Result<DeviceMesh> {
        let wrong = |why: String| {
            TorshError::invalid(
                "DeviceMesh",
                format!("a mesh of {shape:?} named {names:?}: {why}"),
            )
        };
        let total = shape.iter().try_fold(1usize, |n, &s| n.checked_mul(s));
        if shape.is_empty() || total != Some(group.size()) {
            return Err(
                wrong(format!("group {} has {} ranks", group.name(), group.size()))
                    .with_hint("the product of the sizes must be the number of ranks"),
            );
        }
        if names.len() != shape.len() {
            return Err(wrong("each dimension needs a name".into()));
        }
        for (i, name) in names.iter().enumerate() {
            if name.is_empty() || names[..i].contains(name) {
                return Err(wrong(format!("the name {name:?} is empty or given twice")));
            }
        }
        if shape.len() == 1 {
            return Ok(DeviceMesh::line(group.clone(), names[0]));
        }
        // All ranks make all groups in the same order, and keep their own.
        let own = |dims: &[usize]| -> Result<ProcessGroup> {
            let mut mine = None;
            for line in lines(shape, dims) {
                if let Some(g) = group.new_group(&line)? {
                    mine = Some(g);
                }
            }
            mine.ok_or_else(|| {
                wrong(format!(
                    "rank {} is in no group of its dimensions {dims:?}",
                    group.rank()
                ))
            })
        };
        let groups = (0..shape.len())
            .map(|d| own(&[d]))
            .collect::<Result<Vec<_>>>()?;
        let mut pairs = Vec::new();
        if shape.len() > 2 {
            for a in 0..shape.len() {
                for b in a + 1..shape.len() {
                    pairs.push((a, b, own(&[a, b])?));
                }
            }
        }
        let slices = groups
            .iter()
            .zip(names)
            .map(|(g, name)| DeviceMesh::line(g.clone(), name))
            .collect();
        Ok(DeviceMesh(Arc::new(MeshState {
            group: group.clone(),
            shape: shape.to_vec(),
            names: names.iter().map(|n| n.to_string()).collect(),
            coordinate: coordinate_of(group.rank(), shape),
            groups,
            pairs,
            slices,
        })))
    }

    /// A mesh of one dimension.
    fn line(group: ProcessGroup, name: &str) -> DeviceMesh {
        DeviceMesh(Arc::new(MeshState {
            shape: vec![group.size()],
            names: vec![name.to_string()],
            coordinate: vec![group.rank()],
            groups: vec![group.clone()],
            pairs: Vec::new(),
            slices: Vec::new(),
            group,
        }))
    }

    /// The number of a dimension.
    fn dim(&self, op: &'static str, dim: MeshDim) -> Result<usize> {
        let found = match &dim {
            MeshDim::Index(i) => Some(*i).filter(|i| *i < self.ndim()),
            MeshDim::Name(name) => self.0.names.iter().position(|n| n == name),
        };
        found.ok_or_else(|| {
            let asked = match dim {
                MeshDim::Index(i) => i.to_string(),
                MeshDim::Name(n) => format!("{n:?}"),
            };
            TorshError::index(op, format!("{self:?} has no dimension {asked}"))
        })
    }

    /// The mesh of one or two of this mesh's dimensions, in this mesh's order, that this rank is in. Makes no groups, so a
    /// rank may call it alone.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, spawn};
    ///
    /// let shapes = spawn(4, |_| {
    ///     let mesh = DeviceMesh::new(&[1, 2, 2], &["pp", "dp", "tp"])?;
    ///     Ok(mesh.get(&["dp", "tp"])?.shape().to_vec())
    /// })?;
    /// assert_eq!(shapes[0], [2, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A name that the mesh lacks, names in another order than the mesh's, or three and more names that are not all.
    #[torsh_tensor::names_caller]
    pub fn get(&self, names: &[&str]) -> Result<DeviceMesh> {
        let dims = names
            .iter()
            .map(|&n| self.dim("DeviceMesh::get", n.into()))
            .collect::<Result<Vec<_>>>()?;
        let whole: Vec<usize> = (0..self.ndim()).collect();
        if dims == whole {
            return Ok(self.clone());
        }
        match dims[..] {
            [d] => Ok(self.0.slices[d].clone()),
            [a, b] if a < b => {
                let pair = self.0.pairs.iter().find(|p| (p.0, p.1) == (a, b));
                let (_, _, group) = pair.ok_or_else(|| {
                    TorshError::invalid(
                        "DeviceMesh::get",
                        format!("{self:?} has no group for {names:?}"),
                    )
                })?;
                Ok(DeviceMesh(Arc::new(MeshState {
                    group: group.clone(),
                    shape: vec![self.0.shape[a], self.0.shape[b]],
                    names: names.iter().map(|n| n.to_string()).collect(),
                    coordinate: vec![self.0.coordinate[a], self.0.coordinate[b]],
                    groups: vec![self.0.groups[a].clone(), self.0.groups[b].clone()],
                    pairs: Vec::new(),
                    slices: vec![self.0.slices[a].clone(), self.0.slices[b].clone()],
                })))
            }
            _ => Err(
                TorshError::invalid("DeviceMesh::get", format!("{names:?} of {self:?}"))
                    .with_hint("name one dimension, two in the mesh's order, or all"),
            ),
        }
    }

    /// The group along a dimension: the ranks that differ from this one in it alone.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, spawn};
    ///
    /// let ranks = spawn(4, |_| {
    ///     let mesh = DeviceMesh::new(&[2, 2], &["dp", "tp"])?;
    ///     Ok(mesh.group("dp")?.ranks().to_vec())
    /// })?;
    /// assert_eq!(ranks, [[0, 2], [1, 3], [0, 2], [1, 3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// The mesh has no such dimension.
    #[torsh_tensor::names_caller]
    pub fn group(&self, dim: impl Into<MeshDim>) -> Result<ProcessGroup> {
        let d = self.dim("DeviceMesh::group", dim.into())?;
        Ok(self.0.groups[d].clone())
    }

    /// The group of all ranks of the mesh, in its order.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, spawn};
    ///
    /// let sizes = spawn(4, |_| Ok(DeviceMesh::new(&[2, 2], &["dp", "tp"])?.flat_group().size()))?;
    /// assert_eq!(sizes, [4; 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn flat_group(&self) -> &ProcessGroup {
        &self.0.group
    }

    /// The number of ranks along a dimension.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, spawn};
    ///
    /// assert_eq!(spawn(2, |_| DeviceMesh::new(&[1, 2], &["dp", "tp"])?.size("tp"))?, [2, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// The mesh has no such dimension.
    #[torsh_tensor::names_caller]
    pub fn size(&self, dim: impl Into<MeshDim>) -> Result<usize> {
        let d = self.dim("DeviceMesh::size", dim.into())?;
        Ok(self.0.shape[d])
    }

    /// This rank's place in each dimension.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, spawn};
    ///
    /// let places = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2, 1], &["dp", "tp"])?;
    ///     assert_eq!((mesh.shape(), mesh.ndim(), mesh.ranks()), (&[2, 1][..], 2, &[0, 1][..]));
    ///     assert_eq!(mesh.names(), ["dp", "tp"]);
    ///     Ok(mesh.coordinate().to_vec())
    /// })?;
    /// assert_eq!(places, [[0, 0], [1, 0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn coordinate(&self) -> &[usize] {
        &self.0.coordinate
    }

    /// Returns the sizes of the dimensions.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, spawn};
    ///
    /// let shapes = spawn(2, |_| Ok(DeviceMesh::new(&[1, 2], &["dp", "tp"])?.shape().to_vec()))?;
    /// assert_eq!(shapes, [[1, 2], [1, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// The names of the dimensions.
    pub fn names(&self) -> &[String] {
        &self.0.names
    }

    /// The number of dimensions.
    pub fn ndim(&self) -> usize {
        self.0.shape.len()
    }

    /// Returns the ranks of the mesh in its order, as the world counts them.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, spawn};
    ///
    /// let ranks = spawn(4, |_| Ok(DeviceMesh::new(&[2, 2], &["dp", "tp"])?["dp"].ranks().to_vec()))?;
    /// assert_eq!(ranks, [[0, 2], [1, 3], [0, 2], [1, 3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn ranks(&self) -> &[usize] {
        self.0.group.ranks()
    }

    /// Whether two handles are of the same grid over the same group.
    pub(crate) fn is_same(&self, other: &DeviceMesh) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.shape == other.0.shape
                && self.0.names == other.0.names
                && self.ranks() == other.ranks())
    }
}

impl Index<&str> for DeviceMesh {
    type Output = DeviceMesh;

    /// The mesh of one dimension, that this rank is in.
    ///
    /// # Panics
    /// The mesh has no dimension of this name: [`DeviceMesh::get`] gives an error instead.
    #[track_caller]
    fn index(&self, name: &str) -> &DeviceMesh {
        match self.0.names.iter().position(|n| n == name) {
            Some(_) if self.ndim() == 1 => self,
            Some(d) => &self.0.slices[d],
            None => panic!("{self:?} has no dimension {name:?}"),
        }
    }
}

impl fmt::Debug for DeviceMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceMesh(")?;
        for (i, (name, n)) in self.0.names.iter().zip(&self.0.shape).enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{name}={n}")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn;

    #[test]
    fn a_grid_of_three_dimensions_has_its_lines_and_planes() {
        let all = spawn(4, |g| {
            let mesh = DeviceMesh::from_group(&g, &[2, 1, 2], &["a", "b", "c"])?;
            assert_eq!(mesh.group("a")?.ranks(), [g.rank() % 2, g.rank() % 2 + 2]);
            assert_eq!(mesh.group(1)?.ranks(), [g.rank()]);
            let plane = mesh.get(&["a", "c"])?;
            assert_eq!(plane.ranks(), [0, 1, 2, 3]);
            assert_eq!(plane.coordinate(), [g.rank() / 2, g.rank() % 2]);
            assert_eq!(plane["c"].ranks(), mesh["c"].ranks());
            assert_eq!(mesh["c"]["c"].size(0)?, 2);
            assert!(mesh.get(&["c", "a"]).is_err());
            assert!(mesh.group("d").is_err());
            Ok(format!("{mesh:?}"))
        });
        assert_eq!(all.expect("a mesh")[3], "DeviceMesh(a=2, b=1, c=2)");
    }

    #[test]
    fn wrong_meshes_are_refused() {
        let all = spawn(2, |g| {
            let count = DeviceMesh::from_group(&g, &[3], &["a"]).expect_err("3 of 2");
            assert!(count.to_string().contains("has 2 ranks"), "{count}");
            assert!(DeviceMesh::from_group(&g, &[2], &[]).is_err());
            assert!(DeviceMesh::from_group(&g, &[2, 1], &["a", "a"]).is_err());
            Ok(())
        });
        all.expect("errors alone");
    }
}
