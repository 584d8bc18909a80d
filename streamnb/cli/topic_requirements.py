"""The topics that a configuration needs, and the ACLs of a learner."""

from __future__ import annotations

from streamnb.config import Config
from streamnb.engine.topic_plan import Acl, TopicSpec, plan_acls, plan_topics, scorers_acls

_MEANINGS = {
    "missing": "not there; `streamnb topics create` creates what is missing",
    "hidden": "not there, or hidden from the user that asks",
}


def planned_topics(config: Config, brokers: int) -> tuple[TopicSpec, ...]:
    """Return the topics of the configured model; on the embedded log they have no settings."""
    planned = plan_topics(
        config.topics.names,
        partitions=config.topics.partitions,
        replication=config.topics.replication if config.log.is_kafka else 1,
        retention=config.topics.retention,
        max_bytes=config.events.max_bytes,
        largest_prediction=config.predictions.max_bytes,
        brokers=brokers,
    )
    return planned if config.log.is_kafka else tuple(topic._replace(settings={}) for topic in planned)


def acls_of(config: Config) -> tuple[Acl, ...]:
    """Return the ACLs of the learner's user."""
    return plan_acls(config.topics.names, group_of(config))


def acls_of_all(config: Config) -> tuple[Acl, ...]:
    """Return the ACLs of the learner, and of scorers if they predict."""
    scorers = scorers_acls(config.scorers_group, config.topics.predictions)
    return (*acls_of(config), *(scorers if config.predictions.by == "scorers" else ()))


def group_of(config: Config) -> str:
    """Return the learner's consumer group, which is also its transactional id."""
    return f"streamnb.{config.model.name}"
