"""Programs as workers of a psgd run.

    import psgd.torch                     # PyTorch: see psgd.torch.join
    run = psgd.Client("127.0.0.1:7070")   # anything with arrays: see psgd.Client
"""

from psgd._client import Client, Share
from psgd._library import (DataLossError, DivergedError, Error, InvalidError, RefusedError, RunOver,
                           StateError, UnavailableError)

__all__ = ["Client", "Share", "Error", "InvalidError", "StateError", "RefusedError",
           "UnavailableError", "DivergedError", "DataLossError", "RunOver"]
__version__ = "0.1.0"
