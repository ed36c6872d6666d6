# What type checkers see of the package, whose names are imported on first use: those of _PLACES in __init__.py.
from .ops import gemm as gemm, linear as linear
from .convolution import conv as conv, conv_bwd_data as conv_bwd_data, conv_bwd_weight as conv_bwd_weight
from .problem import Problem as Problem, Tensor as Tensor
from .config import KernelConfig as KernelConfig
from .registry import Registry as Registry, Declaration as Declaration
from .dispatcher import Dispatcher as Dispatcher, default_dispatcher as default_dispatcher
from .plan import Plan as Plan, Bound as Bound
from .errors import (
    Error as Error, BadInput as BadInput, Unsupported as Unsupported, CompileFailed as CompileFailed,
    DeviceError as DeviceError, IoError as IoError, Corrupt as Corrupt, InternalError as InternalError,
)
from .jobs import (
    job as job, tune as tune, plan_sweep as plan_sweep, sweep as sweep, sweep_status as sweep_status,
    store_sweep as store_sweep, train as train, evaluate as evaluate, create_pack as create_pack,
    generate as generate, cache as cache,
)
from ._facts import version as version, library as library, suite as suite, device as device, set_log as set_log

__version__: str
