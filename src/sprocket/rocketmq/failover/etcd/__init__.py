"""A decider that is etcd, three or more members, spoken to over the HTTP gateway of its version 3.

/sprocket/CLUSTER/SET/leader       who is master, bound to a lease
                     /state        what outlives every master
                     /member/ID    what each member says of itself, on a lease of its own
"""

from sprocket.rocketmq.failover.etcd.client import EtcdClient, EtcdCredentials, addresses_in
from sprocket.rocketmq.failover.etcd.decider import EtcdDecider

__all__ = ["EtcdClient", "EtcdCredentials", "EtcdDecider", "addresses_in"]
