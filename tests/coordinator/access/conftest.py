"""The stand-in for the Hub, for tests of who may take part."""

from tests.support.hub.stand_in import hub_stand_in as hub_stand_in
