"""Transactions: what becomes of half messages."""

from sprocket.rocketmq.broker.transactions.half_checks import Ask, HalfChecks
from sprocket.rocketmq.broker.transactions.half_records import HalfRecords, RecentHalves, StoredHalf
from sprocket.rocketmq.broker.transactions.transactions import Transactions

__all__ = ["Ask", "HalfChecks", "HalfRecords", "RecentHalves", "StoredHalf", "Transactions"]
