//! Activations and gradients on their way from stage to stage.

use std::collections::{HashMap, VecDeque};

use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::stage::PipelineStage;
use crate::group::ProcessGroup;
use crate::work::Work;

const OP: &str = "pipeline";
/// How many numbers a header has: a mark, the dtype, whether a gradient comes back, the dimensions, their sizes.
const HEADER: usize = 4 + DIMENSIONS;
const DIMENSIONS: usize = 12;
const MARK: i64 = 0x7069_7065;

const DTYPES: [DType; 12] = [
    DType::F32,
    DType::F64,
    DType::F16,
    DType::BF16,
    DType::I8,
    DType::U8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::Bool,
    DType::C64,
    DType::C128,
];

/// What crosses the border behind a stage.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub dtype: DType,
    pub shape: Vec<usize>,
    /// Whether the gradient is sent back.
    pub gradient: bool,
}

impl Header {
    pub fn of(t: &Tensor) -> Header {
        Header {
            dtype: t.dtype(),
            shape: t.dims().to_vec(),
            gradient: t.requires_grad(),
        }
    }

    fn write(&self) -> Result<Tensor> {
        let code = DTYPES.iter().position(|d| *d == self.dtype);
        let (Some(code), true) = (code, self.shape.len() <= DIMENSIONS) else {
            let text = format!(
                "a stage's result of {} and {} dimensions cannot be sent; there are at most {DIMENSIONS}",
                self.dtype,
                self.shape.len()
            );
            return Err(TorshError::invalid(OP, text));
        };
        let mut numbers = vec![
            MARK,
            code as i64,
            i64::from(self.gradient),
            self.shape.len() as i64,
        ];
        numbers.extend(self.shape.iter().map(|&s| s as i64));
        numbers.resize(HEADER, 0);
        Tensor::from_vec(numbers, [HEADER])
    }

    fn read(t: &Tensor) -> Result<Header> {
        let numbers = t.to_vec::<i64>()?;
        let dtype = DTYPES.get(numbers[1] as usize);
        let (true, Some(&dtype)) = (numbers[0] == MARK, dtype) else {
            let text = "what came is no description of a stage's result";
            return Err(TorshError::invalid(OP, text)
                .with_hint("all ranks must make the same step, of the same schedule"));
        };
        let n = (numbers[3] as usize).min(DIMENSIONS);
        Ok(Header {
            dtype,
            shape: numbers[4..4 + n].iter().map(|&s| s as usize).collect(),
            gradient: numbers[2] != 0,
        })
    }
}

/// A border and a direction: forward from `stage` to the next, or backward from `stage` to the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    pub stage: usize,
    pub forward: bool,
}

impl Lane {
    /// Messages of one lane come in the order of micro-batches; lanes are told apart by their tags.
    fn tag(self) -> u32 {
        2 * self.stage as u32 + u32::from(self.forward)
    }

    fn to(self) -> usize {
        match self.forward {
            true => self.stage + 1,
            false => self.stage - 1,
        }
    }
}

/// The messages of one step.
pub(super) struct Exchange {
    group: ProcessGroup,
    /// Of the border behind each stage that is known.
    headers: HashMap<usize, Header>,
    sent: Vec<(Work, Tensor)>,
    coming: HashMap<Lane, VecDeque<(Work, Tensor)>>,
    /// From a stage of this rank to another one.
    local: HashMap<Lane, VecDeque<Tensor>>,
    /// How many receives were posted and taken.
    posted: HashMap<Lane, usize>,
    taken: HashMap<Lane, usize>,
}

impl Exchange {
    pub fn new(group: &ProcessGroup) -> Exchange {
        Exchange {
            group: group.clone(),
            headers: HashMap::new(),
            sent: Vec::new(),
            coming: HashMap::new(),
            local: HashMap::new(),
            posted: HashMap::new(),
            taken: HashMap::new(),
        }
    }

    fn rank_of(&self, stage: usize) -> usize {
        stage % self.group.size()
    }

    fn is_local(&self, stage: usize) -> bool {
        self.rank_of(stage) == self.group.rank()
    }

    /// Whether the border behind a stage is crossed by gradients; true until it is known.
    pub fn returns_gradient(&self, stage: usize) -> bool {
        self.headers.get(&stage).is_none_or(|h| h.gradient)
    }

    /// Sends what a stage made, after the first time what it looks like.
    pub fn send(&mut self, lane: Lane, t: &Tensor) -> Result<()> {
        let to = lane.to();
        if lane.forward {
            let header = Header::of(t);
            match self.headers.get(&lane.stage) {
                None => {
                    if !self.is_local(to) {
                        let message = header.write()?;
                        let work =
                            self.group
                                .isend_tagged(&message, self.rank_of(to), lane.tag())?;
                        self.sent.push((work, message));
                    }
                    self.headers.insert(lane.stage, header);
                }
                Some(first) if first.shape != header.shape || first.dtype != header.dtype => {
                    return Err(TorshError::shape(
                        OP,
                        format!(
                            "stage {} made {:?} {} of one micro-batch and {:?} {} of another",
                            lane.stage, first.shape, first.dtype, header.shape, header.dtype
                        ),
                    ));
                }
                Some(_) => {}
            }
        }
        let t = t.detach();
        if self.is_local(to) {
            self.local.entry(lane).or_default().push_back(t);
            return Ok(());
        }
        let t = t.contiguous()?;
        let work = self.group.isend_tagged(&t, self.rank_of(to), lane.tag())?;
        self.sent.retain(|(work, _)| !work.is_completed());
        self.sent.push((work, t));
        Ok(())
    }

    /// Makes room for the next message of a lane ahead of time, where it is known what comes.
    pub fn expect(&mut self, lane: Lane, device: Device) -> Result<()> {
        let border = match lane.forward {
            true => lane.stage,
            false => lane.stage - 1,
        };
        let waiting = self.coming.get(&lane).is_some_and(|q| !q.is_empty());
        if waiting || self.is_local(lane.stage) {
            return Ok(());
        }
        let Some(header) = self.headers.get(&border) else {
            return Ok(());
        };
        if !lane.forward && !header.gradient {
            return Ok(());
        }
        let buffer = Tensor::empty(&header.shape[..], header.dtype, device)?;
        let from = self.rank_of(lane.stage);
        let work = self.group.irecv_tagged_(&buffer, from, lane.tag())?;
        *self.posted.entry(lane).or_default() += 1;
        self.coming
            .entry(lane)
            .or_default()
            .push_back((work, buffer));
        Ok(())
    }

    /// The next message of a lane.
    pub fn receive(&mut self, lane: Lane, device: Device) -> Result<Tensor> {
        if self.is_local(lane.stage) {
            let next = self.local.get_mut(&lane).and_then(VecDeque::pop_front);
            return next.ok_or_else(|| {
                let text = format!(
                    "stage {} has not run yet, which {} needs",
                    lane.stage,
                    lane.to()
                );
                TorshError::invalid(OP, text)
            });
        }
        if lane.forward && !self.headers.contains_key(&lane.stage) {
            let message = Tensor::zeros([HEADER], DType::I64, Device::Cpu)?;
            let from = self.rank_of(lane.stage);
            self.group.recv_tagged_(&message, from, lane.tag())?;
            self.headers.insert(lane.stage, Header::read(&message)?);
        }
        self.expect(lane, device)?;
        let next = self.coming.get_mut(&lane).and_then(VecDeque::pop_front);
        let Some((work, t)) = next else {
            let text = format!("nothing comes from stage {} to {}", lane.stage, lane.to());
            return Err(TorshError::invalid(OP, text));
        };
        work.wait()?;
        *self.taken.entry(lane).or_default() += 1;
        Ok(t)
    }

    /// Waits until all that was sent is on its way.
    pub fn finish(&mut self) -> Result<()> {
        for (work, _) in self.sent.drain(..) {
            work.wait()?;
        }
        let left: Vec<&Lane> = self
            .posted
            .iter()
            .filter(|(lane, n)| self.taken.get(lane) != Some(n))
            .map(|(lane, _)| lane)
            .collect();
        match left.is_empty() {
            true => Ok(()),
            false => Err(TorshError::invalid(
                OP,
                format!("messages of {left:?} were not taken"),
            )),
        }
    }
}

/// What a stage gets its input from.
pub(super) fn input_lane(stage: &PipelineStage) -> Option<Lane> {
    let stage = stage.index.checked_sub(1)?;
    Some(Lane {
        stage,
        forward: true,
    })
}

/// What a stage gets the gradient of its result from.
pub(super) fn gradient_lane(stage: &PipelineStage) -> Option<Lane> {
    (!stage.is_last()).then_some(Lane {
        stage: stage.index + 1,
        forward: false,
    })
}
